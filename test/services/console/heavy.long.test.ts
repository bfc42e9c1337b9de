import { connect } from "node:net";
import { beforeEach, expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { refusalOf, type TestOperator, TOKENS, useOperator } from "../../fixtures/console.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { useRedisProxy } from "../../fixtures/redis-proxy.ts";
import { multiplyFailed } from "../../support/multiply-failed.ts";

const redis = useRedis();
const proxy = useRedisProxy(redis);
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });
let service: TestOperator;

beforeEach(async () => {
  service = await fixture.start({ redisUrl: proxy.url });
});

const requestFor = (path: string) =>
  `GET ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKENS.viewer}\r\n\r\n`;

/** Holds Redis' replies back, from the n-th matching command on. */
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

test("a long reading is refused to a name that uses its share of the slots, but not to other names", async () => {
  const { reached, release, count } = holdBack(([name]) => name?.toLowerCase() === "xrevrange", 8);
  const reading = Array.from({ length: 8 }, () => service.get("/api/v1/audit"));
  await reached;
  for (const path of ["audit", "rejected/r_0123", "payments/in-flight"])
    expect([path, ...refusalOf(await service.get(`/api/v1/${path}`))]).toEqual([
      ...[path, 429, "request.rate_limited"],
    ]);
  const others = Array.from({ length: 8 }, () => service.get("/api/v1/audit", { as: "viewer" }));
  await eventually("the other name's are read too", () => count() >= 16);
  release();
  for (const answer of await Promise.all([...reading, ...others])) expect(answer.status).toBe(200);
});

test("a count whose client has disconnected is aborted", async () => {
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
  // The first count began earlier, so it would also have ended with the second one.
  expect(one).toBeGreaterThan(5);
  expect(both).toBeLessThanOrEqual(one + 2);
  expect(service.log.events.map(({ event }) => event)).not.toContain("operator.refused");
});
