import { type AddressInfo, connect, createServer } from "node:net";
import { status } from "@grpc/grpc-js";
import { beforeAll, expect, test } from "vitest";
import { useEnds } from "../../fixtures/ends.ts";
import {
  DIFFICULTY,
  ENGINE,
  type Engine,
  NOW_SECS,
  usePricing,
  type Wire,
  wireRequest,
} from "../../fixtures/pricing.ts";
import { send } from "../../support/http.ts";
import { LONG_RUN, onlyInLongRun, sample } from "../../support/long-run.ts";
import { reflectedClient } from "../../support/reflected.ts";
import { solve } from "../../support/solve.ts";
import { toJson } from "./routes/quote/quote-request.ts";

const PROXY = "127.0.0.1";

const pricing = usePricing();
const ends = useEnds();
let engine: Engine;
beforeAll(async () => {
  engine = await pricing.engine({ http: { trusted_proxies: [PROXY] } });
});

/** Makes a request with the proof that all clients find who search from nonce 0 in this second. */
function fromNonceZero(secs: number, content: number): Wire {
  const proof_of_work = solve({ serviceId: 42n, timestamp: BigInt(secs) }, DIFFICULTY);
  const inputs_hash = Buffer.alloc(32);
  inputs_hash.writeUInt32BE(content);
  return wireRequest({ challenge_timestamp: String(secs), proof_of_work, inputs_hash });
}

type Answered = { isOk: boolean; detail: string };
type Asker = (request: Wire) => Promise<Answered>;

/** Requests quotes over HTTP for this address, through the proxy that the engine trusts. */
function overHttp(address: string): Asker {
  return async (request) => {
    const path = `/pricing/jobs/${request.service_id}/${request.job_index}/quote`;
    const headers = { "X-Forwarded-For": address };
    const answer = await send(engine.http.address, { path, headers, body: JSON.stringify(toJson(request)) });
    const { code, detail } = answer.json<Record<string, string>>();
    if (answer.status !== 200) expect([answer.status, code]).toEqual([400, "pricing.request_invalid"]);
    return { isOk: answer.status === 200, detail: String(detail) };
  };
}

/** Requests quotes over gRPC from this address of this machine, with these headers. */
async function overGrpc(address: string, headers: Record<string, string> = {}): Promise<Asker> {
  const { hostname: host, port } = new URL(`http://${engine.grpc.address}`);
  const relay = createServer((from) => {
    const to = connect({ host, port: Number(port), localAddress: address });
    from.pipe(to).pipe(from);
    for (const socket of [from, to]) socket.on("error", () => {}).on("close", () => from.destroy());
  });
  await new Promise<void>((resolve) => relay.listen(0, "127.0.0.1", resolve));
  const client = reflectedClient(`127.0.0.1:${(relay.address() as AddressInfo).port}`);
  ends.defer(() => {
    client.close();
    relay.close();
  });
  return async (request) => {
    const { code, details } = await client.call(ENGINE, "GetJobPrice", request, headers);
    if (code !== status.OK) expect(code).toBe(status.INVALID_ARGUMENT);
    return { isOk: code === status.OK, detail: details };
  };
}

const STRANGER = "127.9.9.9";
const OF_ADDRESS = 8;
const IN_ALL = 512;

type Protocol = (address: string) => Asker | Promise<Asker>;

const PROTOCOLS: [string, number, Protocol][] = [
  ["gRPC", NOW_SECS + 21, overGrpc],
  ["HTTP", NOW_SECS + 20, overHttp],
];
test.each(sample(PROTOCOLS))(
  "a client that has used up the proof of a coming second over %s does not block other clients with the same proof, over either protocol",
  async (_, second, protocol) => {
    const ask = await protocol(STRANGER);
    const made = Array.from({ length: LONG_RUN ? 60 : 12 }, (_, content) => fromNonceZero(second, content));
    const answers = await Promise.all(made.map(ask));
    expect(answers.filter(({ isOk }) => isOk)).toHaveLength(OF_ADDRESS);
    expect(answers.find(({ isOk }) => !isOk)?.detail).toMatch(/^proof_of_work: .*Search from a random nonce/);
    // The address still counts if the client changes the protocol.
    for (const other of [overHttp(STRANGER), await overGrpc(STRANGER)])
      expect(await other(fromNonceZero(second, 99))).toMatchObject({ isOk: false });

    const honest = [overHttp("203.0.113.1"), overHttp("2001:db8::1"), await overGrpc("127.0.0.77")];
    for (const [i, client] of honest.entries())
      expect(await client(fromNonceZero(second, 1000 + i))).toMatchObject({ isOk: true });
  },
);

test("over gRPC, too, only a trusted proxy may name its client", async () => {
  const second = NOW_SECS + 24;
  const asFor = (address: string) => ({ "x-forwarded-for": address });
  const use = async (ask: Asker, from: number) => {
    const asked = Array.from({ length: OF_ADDRESS + 1 }, (_, i) => ask(fromNonceZero(second, from + i)));
    return (await Promise.all(asked)).filter(({ isOk }) => isOk).length;
  };
  expect(await use(await overGrpc(PROXY, asFor("203.0.113.5")), 0)).toBe(OF_ADDRESS);
  expect(await use(await overGrpc(PROXY, asFor("203.0.113.6")), 100)).toBe(OF_ADDRESS);
  expect(await use(await overGrpc("127.0.0.88", asFor("203.0.113.7")), 200)).toBe(OF_ADDRESS);
  expect(await use(await overGrpc("127.0.0.88", asFor("203.0.113.8")), 300)).toBe(0);
});

test("all IPv6 addresses of a subscriber count as one address for a proof of work", async () => {
  const [at, second] = [(i: number) => overHttp(`2001:db8:1:2::${i + 1}`), NOW_SECS + 22];
  const asked = Array.from({ length: 20 }, (_, i) => at(i)(fromNonceZero(second, i)));
  expect((await Promise.all(asked)).filter(({ isOk }) => isOk)).toHaveLength(OF_ADDRESS);
});

onlyInLongRun(() => {
  test("one proof of work uses less than 512 KiB of Redis, with any number of addresses and contents", async () => {
    const { client } = pricing.redis;
    const known = new Set(await client.keys("{postern}:pricing:proof:*"));
    const dearest = { job_index: 255 };
    const asked = Array.from({ length: IN_ALL + 40 }, (_, i) => {
      const subscriber = overHttp(`2001:db8:ffff:${(0xf000 + i).toString(16)}:1:2:3:4`);
      return subscriber({ ...fromNonceZero(NOW_SECS + 23, i), ...dearest });
    });
    expect((await Promise.all(asked)).filter(({ isOk }) => isOk)).toHaveLength(IN_ALL);
    const [key = "", ...more] = (await client.keys("{postern}:pricing:proof:*")).filter(
      (each) => !known.has(each),
    );
    expect(more).toEqual([]);
    expect(Number(await client.memory("USAGE", key, "SAMPLES", 0))).toBeLessThan(512 * 1024);
  });
});
