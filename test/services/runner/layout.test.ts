import { expect, test } from "vitest";
import { createRouter } from "../../../services/runner/router.ts";
import { composeRunner } from "../../../services/runner/runner.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { connectForRequests } from "../../../shared/redis/connect.ts";
import { createClaimRunnerLayout, RUNNER_LAYOUT } from "../../../shared/redis/layout.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { asUser, runnerKeys, useOwnRedis } from "../../fixtures/redis.ts";
import { useRunners } from "../../fixtures/runners.ts";
import { testPostern } from "../../support/test-postern.ts";
import { counting, hasLogged, longJob, stateOf } from "./gated-jobs.ts";

const redis = useOwnRedis();
const runners = useRunners({ redis, fresh: "test" });
const ends = useEnds();
const SECRET = "a".repeat(32);
const OTHER = JSON.stringify({ layout: RUNNER_LAYOUT + 1, release: "9.8.7" });

const layout = () => redis.client.get(runnerKeys.layout);
const allKeys = async () => (await redis.client.keys("*")).sort();

/** Composes a runner without waiting for its start, which may fail. */
function compose() {
  const own = connectForRequests({ url: new Secret(asUser(redis.url, "runner")) }, silentLogger);
  const runner = composeRunner({
    jobs: createRouter(),
    postern: testPostern(),
    redis: own,
    log: silentLogger,
  });
  ends.defer(async () => {
    await runner.close(200);
    own.disconnect();
  });
  return runner;
}

test("the first runner writes its layout to disk before it accepts a call, and others start beside it", async () => {
  const { jobs } = counting();
  await Promise.all([runners.start({ jobs }), runners.start({ jobs })]);
  expect(JSON.parse(String(await layout()))).toMatchObject({ layout: RUNNER_LAYOUT });
  await redis.server.kill("SIGKILL");
  await redis.server.restart();
  await eventually("Redis is back", layout);
  expect((await (await runners.start({ jobs })).offer("k")).status).toBe(201);
});

test("a runner does not start on another layout: it names both, says to keep the keys, and changes nothing", async () => {
  await redis.client.set(runnerKeys.layout, OTHER);
  await expect(compose().firstCheck).rejects.toMatchObject({
    code: "start.layout_mismatch",
    message: expect.stringMatching(
      `layout ${RUNNER_LAYOUT + 1}, written by release 9.8.7.* needs layout ${RUNNER_LAYOUT}\\. Run release 9.8.7 there.*Do not delete`,
    ) as string,
  });
  expect([await allKeys(), await layout()]).toEqual([[runnerKeys.layout], OTHER]);
});

test("a runner does not start beside runner keys without a layout, nor if the layout is no string", async () => {
  const { jobs } = counting();
  const first = await runners.start({ jobs });
  await first.offer("k");
  await first.runner.close(0);
  const before = await allKeys();
  await redis.client.del(runnerKeys.layout);
  await expect(compose().firstCheck).rejects.toMatchObject({ code: "start.layout_mismatch" });
  expect(await allKeys()).toEqual(before.filter((key) => key !== runnerKeys.layout));
  await redis.client.hset(runnerKeys.layout, "layout", RUNNER_LAYOUT);
  await expect(compose().firstCheck).rejects.toMatchObject({ code: "start.layout_mismatch" });
});

test("a runner whose Redis gets another layout accepts no call, runs none, and delivers nothing", async () => {
  const { seen, jobs } = counting();
  const runner = await runners.start({ jobs });
  await redis.client.set(runnerKeys.layout, OTHER);
  await eventually("it is not ready", async () => (await runner.get("/readyz")).status === 503);
  const answer = await runner.offer("k");
  expect([answer.status, answer.json()["code"], seen.runs]).toEqual([429, "runner.throttled", 0]);
  expect(await layout()).toBe(OTHER);
});

test("a runner leaves a long call and a result of another layout unchanged", async () => {
  let runs = 0;
  const jobs = longJob(async () => {
    runs += 1;
  });
  const runner = await runners.start({
    ...{ jobs, lease_ms: 300, secrets: [SECRET], deliver_to: ["http://127.0.0.1:1"] },
  });
  await redis.client.set(runnerKeys.layout, OTHER);
  await eventually("it is not ready", async () => (await runner.get("/readyz")).status === 503);
  await redis.client.hset(runnerKeys.call("k"), {
    ...{ st: "STORED", job: 1, at: 1, len: 0, input: "", attempts: 0 },
  });
  await redis.client.zadd(runnerKeys.due, 1, "k");
  await redis.client.hset(runnerKeys.delivery("k"), "token", "t", "tries", 0, "status", 200, "type", "");
  await redis.client.zadd(runnerKeys.deliveries, 1, "k");
  for (const event of ["job.poll_failed", "result.poll_failed"])
    await eventually(event, () => hasLogged(runner, event));
  expect([runs, await stateOf(runner, "k")]).toEqual([0, "stored"]);
  expect(await redis.client.hget(runnerKeys.delivery("k"), "tries")).toBe("0");
});

test("a Redis that is emptied under a runner gets its layout again, even if a call comes first", async () => {
  const { jobs } = counting();
  const runner = await runners.start({ jobs });
  await redis.client.flushdb();
  await runner.offer("k");
  await eventually("the layout is back", layout);
  expect((await runner.offer("k")).headers["idempotent-replayed"]).toBe("true");
});

test("one of two layouts that start on an empty Redis at once is refused", async () => {
  for (let round = 0; round < 50; round++) {
    await redis.client.flushdb();
    const starts = [
      () =>
        createClaimRunnerLayout(redis.client, runnerKeys)().then(
          () => true,
          () => false,
        ),
      async () => (await redis.client.set(runnerKeys.layout, OTHER, "NX")) === "OK",
    ];
    if (round % 2 === 0) starts.reverse();
    const started = await Promise.all(starts.map((start) => start()));
    expect(started.filter(Boolean)).toHaveLength(1);
  }
});

test("a runner does not start on a replica, nor while Redis accepts no writes, and writes no layout there", async () => {
  const { client } = redis;
  await client.config("SET", "min-replicas-to-write", "1");
  const waits = compose();
  await eventually("it waits", () => JSON.stringify(waits.readiness()).includes("NOREPLICAS"));
  expect(await layout()).toBeNull();
  await client.config("SET", "min-replicas-to-write", "0");
  await waits.firstCheck;
  await client.flushdb();
  await client.replicaof("127.0.0.1", "1");
  try {
    await expect(compose().firstCheck).rejects.toMatchObject({ code: "start.redis_not_durable" });
    expect(await layout()).toBeNull();
  } finally {
    await client.replicaof("NO", "ONE");
  }
});
