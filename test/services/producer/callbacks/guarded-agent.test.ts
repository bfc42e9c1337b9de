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

/** A server on one address of this machine, which counts who connects. */
async function listens(server: Server, host: string, port = 0): Promise<Receiver> {
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
  listens(
    createServer(TEST_TLS, (_req, res) => void res.end("here")),
    host,
    port,
  );
const plain = (host = "127.0.0.1") =>
  listens(
    createPlain((_req, res) => void res.end("here")),
    host,
  );

type Setup = { answers?: Answers; allowed?: readonly string[]; ofSystem?: (name: string) => string[] };

/** Asks by an agent whose names a server of DNS resolves. Answers the text of what came back, or why nothing did. */
async function asking({ answers = () => [], allowed = [], ofSystem = () => [] }: Setup = {}) {
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

test("a name that leads to a private address is not connected to", async () => {
  const receiver = await tls();
  const { ask } = await asking({ answers: () => ["127.0.0.1"] });
  expect(await ask(`https://hooks.example:${receiver.port}/`)).toBe(
    "hooks.example resolves to 127.0.0.1, which is neither public nor in allow_cidrs",
  );
  expect(receiver.connections()).toBe(0);
});

test("a name with one private address among public ones is not connected to", async () => {
  const receiver = await tls();
  const { ask } = await asking({ answers: () => ["1.1.1.1", "127.0.0.1"] });
  expect(await ask(`https://hooks.example:${receiver.port}/`)).toMatch(FORBIDDEN);
  expect(receiver.connections()).toBe(0);
});

test("a name that leads to IPv4 inside of IPv6 is not connected to", async () => {
  const receiver = await tls();
  for (const address of ["::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"]) {
    const { ask } = await asking({ answers: () => [address] });
    expect(await ask(`https://hooks.example:${receiver.port}/`)).toMatch(FORBIDDEN);
  }
  expect(receiver.connections()).toBe(0);
});

test("a host name whose address changes after the check is connected at the checked address", async () => {
  const looked = await tls("127.0.0.2");
  const rebound = await tls("127.0.0.1", looked.port);
  let questions = 0;
  // Both questions of one look get the first answer: for A and for AAAA.
  const answers = () => (questions++ < 2 ? ["127.0.0.2"] : ["127.0.0.1"]);
  const { ask, asked } = await asking({ answers, allowed: ["127.0.0.2"] });
  expect(await ask(`https://hooks.example:${looked.port}/`)).toBe("here");
  expect(asked).toEqual(["hooks.example", "hooks.example"]);
  expect([looked.connections(), rebound.connections()]).toEqual([1, 0]);
});

test("a name that answers a private address for the next connection is not connected to again", async () => {
  const receiver = await tls("127.0.0.2");
  const private_ = await tls("127.0.0.1", receiver.port);
  let address = "127.0.0.2";
  const { ask } = await asking({ answers: () => [address], allowed: ["127.0.0.2"] });
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
])("an address written as a host is not connected to: %s", async (_how, host) => {
  const receiver = await tls();
  const { ask, asked } = await asking({ answers: () => ["127.0.0.1"] });
  expect(await ask(`https://${host}:${receiver.port}/`)).toMatch(FORBIDDEN);
  expect(receiver.connections()).toBe(0);
  expect(asked).toEqual([]);
});

test("an address that is allowed is connected to, by name and by itself", async () => {
  const receiver = await tls();
  const { ask } = await asking({ answers: () => ["127.0.0.1"], allowed: ["127.0.0.0/8"] });
  for (const host of ["hooks.example", "127.0.0.1", "localhost"])
    expect(await ask(`https://${host}:${receiver.port}/`)).toBe("here");
});

test("without TLS only an address that is allowed is connected to", async () => {
  const receiver = await plain();
  const { ask } = await asking({
    answers: (name) => (name === "in" ? ["127.0.0.1"] : ["1.1.1.1"]),
    allowed: ["127.0.0.1"],
  });
  expect(await ask(`http://in:${receiver.port}/`)).toBe("here");
  expect(await ask("http://out/")).toBe(
    "out resolves to 1.1.1.1, which is not in allow_cidrs, as http requires",
  );
});

test("a certificate of another name is not taken", async () => {
  const receiver = await tls();
  const { ask } = await asking({ answers: () => ["127.0.0.1"], allowed: ["127.0.0.1"] });
  expect(await ask(`https://another.example:${receiver.port}/`)).toMatch(/does not match certificate/);
});

test("the system is asked only for names that DNS does not know, and its answer is looked at as well", async () => {
  const receiver = await tls();
  const hosts: Record<string, string[]> = {
    "of.hooks.example": ["127.0.0.1"],
    "private.hooks.example": ["10.0.0.1"],
  };
  const { ask } = await asking({ ofSystem: (name) => hosts[name] ?? [], allowed: ["127.0.0.1"] });
  expect(await ask(`https://of.hooks.example:${receiver.port}/`)).toBe("here");
  expect(await ask("https://private.hooks.example/")).toMatch(FORBIDDEN);
  const known = await asking({
    answers: () => ["1.1.1.1"],
    ofSystem: () => ["127.0.0.1"],
    allowed: ["1.1.1.1"],
  });
  expect(await known.ask("http://of.hooks.example:1/")).not.toMatch(FORBIDDEN);
});

test("a name whose servers do not answer is given up in time, and asks nothing of the system", async () => {
  let system = 0;
  const { ask } = await asking({
    answers: () => undefined,
    ofSystem: () => {
      system += 1;
      return [];
    },
  });
  expect(await ask("https://hooks.example/")).toMatch(/ETIMEOUT/);
  expect(system).toBe(0);
});
