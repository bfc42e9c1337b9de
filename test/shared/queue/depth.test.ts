import { beforeEach, expect, test } from "vitest";
import type { Verdict } from "../../../services/producer/consumer/finish.ts";
import { createEnqueue } from "../../../services/webhooks-gateway/enqueue.ts";
import type { JobCall } from "../../../shared/call/job-call.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { createCallRecords } from "../../../shared/queue/call-record.ts";
import { createReadDepth } from "../../../shared/queue/depth.ts";
import { createDiscard } from "../../../shared/queue/discard.ts";
import { openJobs } from "../../../shared/queue/jobs.ts";
import { createReplay } from "../../../shared/queue/replay.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { INJECTED, useConsumers } from "../../fixtures/consumers.ts";
import { aCall } from "../../fixtures/producer.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";

const redis = useRedis();
beforeEach(async () => {
  await redis.client.flushall();
});
const consumers = useConsumers(redis);

/** Reads the depth as a webhook gateway does. Deletes the cached depth first, so that the value is current. */
async function depth() {
  await redis.client.del(keys.depth("webhook"));
  return createReadDepth(partitionOf(redis.client), "webhook")();
}

const add = (call: JobCall) => createEnqueue(partitionOf(redis.client))(call);
const sizeOf = (...calls: JobCall[]) => calls.reduce((sum, call) => sum + JSON.stringify(call).length, 0);
const failedAt = async ({ id }: JobCall) =>
  Number(await redis.client.zscore(keys.inQueue("webhook/7/1", "failed"), id));

test("the bytes of calls count from their add to their injection or discard, including failed calls", async () => {
  const operate = {
    partition: partitionOf(redis.client),
    clock: systemClock,
    log: silentLogger,
    by: "a test",
  };
  const [injected, failing, replayed] = [aCall(), aCall({ body: Buffer.alloc(5000) }), aCall()];
  const paid = aCall({ origin: "x402", body: Buffer.alloc(300) });
  for (const call of [injected, failing, replayed, paid, injected]) await add(call);
  expect((await depth()).bytes).toBe(sizeOf(injected, failing, replayed, paid));
  const fails = new Set([failing.id, replayed.id]);
  await consumers.start({
    deliver: ({ id }): Verdict =>
      fails.has(id) ? { kind: "fail", reason: "runner.failed: it did" } : INJECTED,
  });
  await eventually("both are injected", async () => (await depth()).bytes === sizeOf(failing, replayed));
  const ref = async (call: JobCall) => ({
    id: call.id,
    queue: "webhook/7/1",
    failedAt: await failedAt(call),
  });
  await eventually("both have failed", async () => (await depth()).failed === 2);
  fails.clear();
  expect(await createReplay(operate)(await ref(replayed), { selection: "by test" })).toBe("done");
  await eventually("it is injected", async () => (await depth()).bytes === sizeOf(failing));
  expect(await createDiscard(operate)(await ref(failing), { selection: "by test" })).toBe("done");
  expect((await depth()).bytes).toBe(0);
});

test("a job's age is the age of its oldest waiting call that was never tried, without retries and paused jobs", async () => {
  const since = Date.now() - 60_000;
  const [retried, untried, paused] = [aCall({ job_id: 1 }), aCall({ job_id: 2 }), aCall({ job_id: 3 })];
  for (const call of [retried, untried, paused]) {
    await add(call);
    await redis.client.hset(keys.inQueue(`webhook/7/${call.job_id}`, call.id), "timestamp", since);
  }
  expect([...(await depth()).untriedSince.keys()].sort()).toEqual(["7/1", "7/2", "7/3"]);
  const attempt = { at: Date.now(), code: "runner.failed", reason: "it did", worker: "a test" };
  await createCallRecords(redis.partition).attemptFailed(
    { id: retried.id, queue: "webhook/7/1", take: 1 },
    attempt,
    since,
  );
  await openJobs(redis.partitions).pause("7/3", { at: Date.now(), by: "a test", reason: "" });
  const found = await depth();
  expect(found.untriedSince).toEqual(new Map([["7/2", since]]));
  expect(found.oldestSince).toBe(since);
});

test("gateways that read the depth within half a second get the same cached reading", async () => {
  const read = createReadDepth(redis.partition, "webhook");
  await add(aCall());
  expect((await read()).waiting).toBe(1);
  await add(aCall());
  expect((await read()).waiting).toBe(1);
  await redis.client.del(keys.depth("webhook"));
  expect((await read()).waiting).toBe(2);
});
