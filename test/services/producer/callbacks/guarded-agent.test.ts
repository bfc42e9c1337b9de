import { Resolver } from "node:dns/promises";
import { once } from "node:events";
import { createServer as createPlain, type Server } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { createGuardedAgent } from "../../../../services/producer/callbacks/guarded-agent.ts";
import { createResolve } from "../../../../services/producer/callbacks/resolve.ts";
import { createAddressList } from "../../../../shared/http/ip/address-list.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { type Answers, startDnsServer } from "../../../support/dns-server.ts";
import { TEST_TLS } from "../../../support/tls.ts";

const ends = useEnds();

type Receiver = { port: number; connections(): number };

/** Starts a server on one address of this machine, which counts its connections. */
async function startServer(server: Server, host: string, port = 0): Promise<Receiver> {
  let connections = 0;
  server.on("connection", () => {
    connections += 1;
  });
  server.listen(port, host);
  await once(server, "listening");
  ends.defer(() => {
    server.closeAllConnections();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, connections: () => connections };
}

const tls = (host = "127.0.0.1", port = 0) =>
  startServer(
    createServer(TEST_TLS, (_req, res) => void res.end("here")),
    host,
    port,
  );
const plain = (host = "127.0.0.1") =>
  startServer(
    createPlain((_req, res) => void res.end("here")),
    host,
  );

type Setup = { answers?: Answers; allowed?: readonly string[]; ofSystem?: (name: string) => string[] };

/**
 * Sends requests through an agent that resolves names by the DNS server of this test. `ask` resolves with the answer's text
 * or with the error message.
 */
async function createAsk({ answers = () => [], allowed = [], ofSystem = () => [] }: Setup = {}) {
  const dns = await startDnsServer(answers);
  ends.defer(dns.close);
  const servers = new Resolver({ timeout: 200, tries: 1 });
  servers.setServers([dns.address]);
  const agent = createGuardedAgent({
    allowed: createAddressList(allowed),
    connections: 2,
    resolve: createResolve(servers, async (name) => ofSystem(name)),
    ca: TEST_TLS.cert,
  });
  ends.defer(() => agent.destroy());
  const ask = async (text: string): Promise<string> => {
    const { origin, pathname } = new URL(text);
    try {
      const { body } = await agent.request({ origin, path: pathname, method: "GET" });
      return await body.text();
    } catch (error) {
      return (error as Error).message;
    }
  };
  return { ask, asked: dns.asked };
}

const FORBIDDEN = /is neither public nor in allow_cidrs/;

test("the agent does not connect to a name that resolves to a private address", async () => {
  const receiver = await tls();
  const { ask } = await createAsk({ answers: () => ["127.0.0.1"] });
  expect(await ask(`https://hooks.example:${receiver.port}/`)).toBe(
    "hooks.example resolves to 127.0.0.1, which is neither public nor in allow_cidrs",
  );
  expect(receiver.connections()).toBe(0);
});

test("the agent does not connect to a name with one private address among public ones", async () => {
  const receiver = await tls();
  const { ask } = await createAsk({ answers: () => ["1.1.1.1", "127.0.0.1"] });
  expect(await ask(`https://hooks.example:${receiver.port}/`)).toMatch(FORBIDDEN);
  expect(receiver.connections()).toBe(0);
});

test("the agent does not connect to a name that resolves to an IPv4-mapped IPv6 address", async () => {
  const receiver = await tls();
  for (const address of ["::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"]) {
    const { ask } = await createAsk({ answers: () => [address] });
    expect(await ask(`https://hooks.example:${receiver.port}/`)).toMatch(FORBIDDEN);
  }
  expect(receiver.connections()).toBe(0);
});

test("the agent connects to the address that it has checked, even if the host name's address changes after the check", async () => {
  const checked = await tls("127.0.0.2");
  const rebound = await tls("127.0.0.1", checked.port);
  let questions = 0;
  // One lookup asks two questions, for A and for AAAA, and both get the first answer.
  const answers = () => (questions++ < 2 ? ["127.0.0.2"] : ["127.0.0.1"]);
  const { ask, asked } = await createAsk({ answers, allowed: ["127.0.0.2"] });
  expect(await ask(`https://hooks.example:${checked.port}/`)).toBe("here");
  expect(asked).toEqual(["hooks.example", "hooks.example"]);
  expect([checked.connections(), rebound.connections()]).toEqual([1, 0]);
});

test("the agent does not reconnect to a name that resolves to a private address the next time", async () => {
  const receiver = await tls("127.0.0.2");
  const private_ = await tls("127.0.0.1", receiver.port);
  let address = "127.0.0.2";
  const { ask } = await createAsk({ answers: () => [address], allowed: ["127.0.0.2"] });
  const url = (host: string) => `https://${host}:${receiver.port}/`;
  expect(await ask(url("a.hooks.example"))).toBe("here");
  address = "127.0.0.1";
  expect(await ask(url("b.hooks.example"))).toMatch(FORBIDDEN);
  expect(private_.connections()).toBe(0);
});

test.each([
  ["decimal", "2130706433"],
  ["octal", "0177.0.0.1"],
  ["hexadecimal", "0x7f000001"],
  ["short", "127.1"],
  ["full-width digits", "１２７.０.０.１"],
  ["with a dot at its end", "127.0.0.1."],
  ["IPv4 inside of IPv6", "[::ffff:127.0.0.1]"],
  ["NAT64", "[64:ff9b::127.0.0.1]"],
  ["IPv6 loopback", "[::1]"],
  ["the name of this machine", "localhost"],
  ["a name below it", "hooks.localhost"],
  ["behind a user", "hooks.example@127.0.0.1"],
])("the agent does not connect to a private address that is written as a host: %s", async (_how, host) => {
  const receiver = await tls();
  const { ask, asked } = await createAsk({ answers: () => ["127.0.0.1"] });
  expect(await ask(`https://${host}:${receiver.port}/`)).toMatch(FORBIDDEN);
  expect(receiver.connections()).toBe(0);
  expect(asked).toEqual([]);
});

test("the agent connects to an allowed address, by name and by address", async () => {
  const receiver = await tls();
  const { ask } = await createAsk({ answers: () => ["127.0.0.1"], allowed: ["127.0.0.0/8"] });
  for (const host of ["hooks.example", "127.0.0.1", "localhost"])
    expect(await ask(`https://${host}:${receiver.port}/`)).toBe("here");
});

test("the agent connects without TLS only to an allowed address", async () => {
  const receiver = await plain();
  const { ask } = await createAsk({
    answers: (name) => (name === "in" ? ["127.0.0.1"] : ["1.1.1.1"]),
    allowed: ["127.0.0.1"],
  });
  expect(await ask(`http://in:${receiver.port}/`)).toBe("here");
  expect(await ask("http://out/")).toBe(
    "out resolves to 1.1.1.1, which is not in allow_cidrs, as http requires",
  );
});

test("the agent refuses a certificate for another name", async () => {
  const receiver = await tls();
  const { ask } = await createAsk({ answers: () => ["127.0.0.1"], allowed: ["127.0.0.1"] });
  expect(await ask(`https://another.example:${receiver.port}/`)).toMatch(/does not match certificate/);
});

test("the system resolves only names that DNS does not know, and the agent checks its answer too", async () => {
  const receiver = await tls();
  const hosts: Record<string, string[]> = {
    "of.hooks.example": ["127.0.0.1"],
    "private.hooks.example": ["10.0.0.1"],
  };
  const { ask } = await createAsk({ ofSystem: (name) => hosts[name] ?? [], allowed: ["127.0.0.1"] });
  expect(await ask(`https://of.hooks.example:${receiver.port}/`)).toBe("here");
  expect(await ask("https://private.hooks.example/")).toMatch(FORBIDDEN);
  const known = await createAsk({
    answers: () => ["1.1.1.1"],
    ofSystem: () => ["127.0.0.1"],
    allowed: ["1.1.1.1"],
  });
  expect(await known.ask("http://of.hooks.example:1/")).not.toMatch(FORBIDDEN);
});

test("the agent stops waiting in time if a name's DNS servers do not answer, and does not ask the system", async () => {
  let system = 0;
  const { ask } = await createAsk({
    answers: () => undefined,
    ofSystem: () => {
      system += 1;
      return [];
    },
  });
  expect(await ask("https://hooks.example/")).toMatch(/ETIMEOUT/);
  expect(system).toBe(0);
});
