import { Agent } from "node:http";
import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { useOwnRedis } from "../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../fixtures/redis-proxy.ts";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";
import { applyFault, endpoints, isAdd } from "./faults.ts";

const redis = useOwnRedis();
const proxy = useRedisProxy(redis);
const webhooks = useWebhooks({ redis });

const post = (gateway: TestWebhooks, path = "/random", headers = {}) =>
  send(gateway.address, { path, headers, body: "x" });
const readyz = ({ address }: TestWebhooks) => send(address, { method: "GET", path: "/readyz" });

test("if Redis never replies to an add, the answer is 503 queue.outcome_unknown, although the call may be queued", async () => {
  const gateway = await webhooks.start({ endpoints, redisUrl: proxy.url, enqueueTimeoutMs: 600 });
  expect((await post(gateway)).status).toBe(202);
  applyFault(proxy, isAdd, { kind: "lose-reply" }, Number.POSITIVE_INFINITY);
  const answer = await post(gateway);
  expect(answer.status).toBe(503);
  expect(answer.json()).toMatchObject({ code: "queue.outcome_unknown" });
  expect(answer.json()["detail"]).toContain("may run twice");
  expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
  expect(await webhooks.waiting()).toHaveLength(2);
});

test("a delivery that is repeated after 503 queue.outcome_unknown is the same call", async () => {
  const gateway = await webhooks.start({ endpoints, redisUrl: proxy.url, enqueueTimeoutMs: 600 });
  applyFault(proxy, isAdd, { kind: "lose-reply" }, Number.POSITIVE_INFINITY);
  const deliver = () => post(gateway, "/evidence", { "X-Id": "1" });
  const answer = await deliver();
  expect(answer.json()).toMatchObject({ status: 503, code: "queue.outcome_unknown" });
  expect(answer.json()["detail"]).toContain("it is the same call");
  proxy.onCommand = () => undefined;
  await eventually("it is accepted", async () => (await deliver()).status === 202);
  expect(await webhooks.waiting()).toHaveLength(1);
});

test("an add that Redis refuses is answered with 503 queue.unavailable, and nothing is queued", async () => {
  const gateway = await webhooks.start({ endpoints, redisUrl: proxy.url, enqueueTimeoutMs: 300 });
  const words = ["EVAL", "return redis.error_reply('OOM command not allowed')", "0"];
  applyFault(proxy, isAdd, { kind: "rewrite", words }, Number.POSITIVE_INFINITY);
  expect((await post(gateway)).json()).toMatchObject({ status: 503, code: "queue.unavailable" });
  expect(await webhooks.waiting()).toEqual([]);
});

test("if the oldest call of a job has waited too long, only webhooks for that job are refused", async () => {
  const two = [...endpoints, { path: "/other", job_id: 2, auth: "none" }];
  const gateway = await webhooks.start({ endpoints: two, limits: { oldest_age_secs_max: 0.05 } });
  expect((await post(gateway)).status).toBe(202);
  await eventually(
    "the job is closed",
    async () => (await post(gateway)).json()["code"] === "queue.overloaded",
  );
  expect((await post(gateway, "/other")).status).toBe(202);
});

test("a webhook is refused with 503 queue.overloaded while queue depth, bytes, oldest age or Redis' memory is over its limit", async () => {
  await redis.client.config("SET", "maxmemory", "20mb");
  const [depth, bytes, age, memory] = await Promise.all([
    webhooks.start({ endpoints, limits: { queue_depth_max: 3 } }),
    webhooks.start({ endpoints, limits: { queue_bytes_max: 500 } }),
    webhooks.start({ endpoints, limits: { oldest_age_secs_max: 0.05 } }),
    webhooks.start({ endpoints, limits: { redis_memory_ratio_max: 0.01 } }),
  ]);
  for (let i = 0; i < 3; i++) expect((await post(depth)).status).toBe(202);
  const refusals = [
    [depth, "queue depth"],
    [bytes, "queue bytes"],
    [age, "age of the job's oldest call"],
    [memory, "Redis memory"],
  ] as const;
  await Promise.all(
    refusals.map(async ([gateway, limit]) => {
      const answer = await eventually(`the limit of ${limit} is seen`, async () => {
        const answer = await post(gateway);
        return answer.status === 202 ? undefined : answer;
      });
      const detail = `over the limit: ${limit}`;
      expect(answer.json()).toMatchObject({ status: 503, code: "queue.overloaded", detail });
    }),
  );
  const ready = await readyz(depth);
  const backpressure = expect.stringContaining("queue.overloaded");
  expect([ready.status, ready.json()]).toEqual([200, expect.objectContaining({ backpressure })]);

  await redis.client.flushdb();
  await redis.client.config("SET", "maxmemory", "0");
  const isRelieved = async (gateway: TestWebhooks) =>
    (await readyz(gateway)).json()["backpressure"] === "none";
  for (const [gateway, limit] of refusals)
    await eventually(`${limit} is within its limit`, () => isRelieved(gateway));
  for (const gateway of [age, depth, memory]) expect((await post(gateway)).status).toBe(202);
});

test("a webhook to a gateway that its host has stopped is refused with 503 service.draining and Retry-After", async () => {
  const gateway = await webhooks.start({ endpoints });
  const agent = new Agent({ keepAlive: true });
  const deliver = () => send(gateway.address, { path: "/random", body: "x", agent });
  expect((await deliver()).status).toBe(202);
  gateway.gateway.drain();
  gateway.gateway.stop();
  const answer = await deliver();
  expect(answer.json()).toMatchObject({ status: 503, code: "service.draining" });
  expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
  expect((await readyz(gateway)).status).toBe(503);
});

test("a gateway that starts without Redis answers 503 service.starting, and accepts calls once Redis is available", async () => {
  await redis.server.kill("SIGKILL");
  const gateway = await webhooks.start({ endpoints, early: true, enqueueTimeoutMs: 300 });
  expect((await send(gateway.address, { method: "GET", path: "/livez" })).status).toBe(200);
  expect((await readyz(gateway)).status).toBe(503);
  expect((await post(gateway)).json()).toMatchObject({ status: 503, code: "service.starting" });
  await redis.server.restart();
  await eventually("it takes calls", async () => (await post(gateway)).status === 202);
  expect((await readyz(gateway)).status).toBe(200);
});

test("while Redis is unavailable webhooks are refused with 503, and calls accepted earlier are still there afterwards", async () => {
  const gateway = await webhooks.start({ endpoints, enqueueTimeoutMs: 300 });
  const before = await post(gateway);
  await redis.server.kill("SIGKILL");
  expect((await post(gateway)).status).toBe(503);
  expect((await readyz(gateway)).status).toBe(503);
  await redis.server.restart();
  await eventually("it takes calls", async () => (await post(gateway)).status === 202);
  expect((await webhooks.waiting()).map((call) => call.id)).toContain(before.json()["call_id"]);
});

test("while Redis is unavailable a handshake with a secret is refused with 503, and one that needs no Redis is answered", async () => {
  const endpoints = [
    { path: "/asana", job_id: 1, preset: "asana" },
    { path: "/dropbox", job_id: 1, preset: "dropbox", secret: "a secret of some length" },
  ];
  const gateway = await webhooks.start({ endpoints });
  await redis.server.kill("SIGKILL");
  const answer = await post(gateway, "/asana", { "X-Hook-Secret": "a secret" });
  expect(answer.json()).toMatchObject({ status: 503, code: "queue.unavailable" });
  expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
  const echo = await send(gateway.address, { method: "GET", path: "/dropbox?challenge=abc" });
  expect([echo.status, echo.text]).toEqual([200, "abc"]);
  await redis.server.restart();
});
