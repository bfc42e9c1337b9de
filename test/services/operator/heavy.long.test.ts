import { connect, type Socket } from "node:net";
import { beforeEach, expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { refusalOf, type TestOperator, TOKENS, useOperator } from "../../fixtures/operator.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { useRedisProxy } from "../../fixtures/redis-proxy.ts";
import { multiplyFailed } from "../../support/multiply-failed.ts";

const redis = useRedis();
const proxy = useRedisProxy(redis);
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });
const ends = useEnds();
let service: TestOperator;

beforeEach(async () => {
  service = await fixture.start({ redisUrl: proxy.url });
});

/** Asks for a large body eight times, as often as much may be read at once, and reads but the beginning of each. */
async function stall({ address }: TestOperator): Promise<Socket[]> {
  const [id = ""] = await calls.fail([{ body: Buffer.alloc(16 * 1024 * 1024) }]);
  const begun = Array.from({ length: 8 }, async () => {
    const socket = connect(Number(address.split(":")[1]), "127.0.0.1");
    ends.defer(() => socket.destroy());
    socket.on("error", () => {});
    socket.write(requestFor(`/api/v1/failed/${id}/body`));
    await new Promise((resolve) => socket.once("data", resolve));
    socket.pause();
    return socket;
  });
  return Promise.all(begun);
}

const requestFor = (path: string) =>
  `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKENS.viewer}\r\n\r\n`;

/** Holds the answers of Redis back from the n-th command on that is one of these. */
function holdBack(isIt: (words: readonly string[]) => boolean, n: number) {
  let release = () => {};
  const until = new Promise<void>((resolve) => {
    release = resolve;
  });
  let count = 0;
  const reached = new Promise<void>((resolve) => {
    proxy.onCommand = (words) => {
      if (!isIt(words)) return undefined;
      count += 1;
      if (count === n) resolve();
      return count === 1 ? { kind: "late-reply", until } : undefined;
    };
  });
  return { reached, release, count: () => count };
}

test("what reads much of Redis is refused while so much is read already", async () => {
  const { reached, release } = holdBack(([name]) => name?.toLowerCase() === "xrevrange", 8);
  const reading = Array.from({ length: 8 }, () => service.get("/api/v1/audit"));
  await reached;
  for (const path of ["rejected/r_0123", "rejected/r_0123/body", "payments/in-flight"])
    expect([path, ...refusalOf(await service.get(`/api/v1/${path}`))]).toEqual([
      ...[path, 429, "request.rate_limited"],
    ]);
  release();
  for (const answer of await Promise.all(reading)) expect(answer.status).toBe(200);
});

test("a count that nobody waits for any more is given up", async () => {
  const [id = ""] = await calls.fail([{}]);
  await multiplyFailed(redis.partition, {
    ...{ of: { id, queue: "webhook/7/1" }, copies: 5000, queues: ["webhook/7/1"], everyMs: -1 },
  });
  const path = "/api/v1/failed/count?endpoint=/none";
  const { reached, release, count } = holdBack(([name]) => name?.toLowerCase() === "evalsha", 1);
  const socket = connect(Number(service.address.split(":")[1]), "127.0.0.1");
  socket.on("error", () => {});
  socket.write(requestFor(path));
  await reached;
  socket.resetAndDestroy();
  await service.get("/openapi.json");
  release();
  expect((await service.get(path)).status).toBe(200);
  const both = count();
  await service.get(path);
  const one = count() - both;
  // The first had a head start, so it would have been whole with the second.
  expect(one).toBeGreaterThan(5);
  expect(both).toBeLessThanOrEqual(one + 2);
  expect(service.log.events.map(({ event }) => event)).not.toContain("operator.refused");
});

const isRefused = async () => (await service.get("/api/v1/audit")).status === 429;

test("a body keeps its place until its reader has it or is gone", async () => {
  const [first, ...others] = await stall(service);
  expect(await isRefused()).toBe(true);
  first?.resume();
  await eventually("one has its body", async () => !(await isRefused()));
  for (const socket of others) socket.destroy();
});

test("a reader that takes nothing any more is cut off, and its place is free", async () => {
  service = await fixture.start({ liveTimes: { stalledMs: 50 } });
  await stall(service);
  await eventually("there is a place", async () => !(await isRefused()));
});
