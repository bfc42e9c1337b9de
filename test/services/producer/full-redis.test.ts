import { afterEach, expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { createClaimLayout } from "../../../shared/redis/layout.ts";
import { useFakeRunner } from "../../fixtures/fake-runner.ts";
import { aCall, useProducer } from "../../fixtures/producer.ts";
import { useOwnRedis } from "../../fixtures/redis.ts";

const redis = useOwnRedis();
const producers = useProducer({ redis });
const runner = useFakeRunner();

const QUEUE = "webhook/7/1";

/** Makes Redis full, after gateways have written the layout to it. */
async function fill(): Promise<void> {
  for (const partition of redis.partitions.all) await createClaimLayout(partition)();
  await redis.client.config("SET", "maxmemory", 1);
}

afterEach(() => redis.client.config("SET", "maxmemory", 0));

test("a full Redis hands out every accepted call: waiting calls, calls that fail at first, and those of a dead producer", async () => {
  const calls = Array.from({ length: 12 }, (_, i) => aCall({ job_id: 1 + (i % 3) }));
  for (const call of calls) await producers.add(call);
  const { id: taken = "" } = calls[0] ?? {};
  const { keys } = redis.partitions.of(taken);
  await redis.client.lmove(keys.inQueue(QUEUE, "wait"), keys.inQueue(QUEUE, "active"), "RIGHT", "LEFT");
  await redis.client.hset(keys.inQueue(QUEUE, taken), "ats", 1);
  await fill();
  const offered = new Set<string>();
  runner.answer = ({ headers }) => {
    const id = String(headers["idempotency-key"]);
    const isFirst = !offered.has(id);
    offered.add(id);
    return { status: isFirst ? 503 : 200 };
  };
  const jobs = { "7/1": { concurrency: 2 } };
  const { saw, producer } = producers.start({ runnerUrl: runner.url, lockMs: 1000, jobs, setsLimits: true });
  await saw("call.injected", calls.length);
  expect(await producers.queues.countIn("wait", "active", "delayed", "failed")).toBe(0);
  for (const [i, { id }] of calls.entries()) {
    expect(await producers.records.state(id)).toBe("INJECTED");
    // The dead producer may have sent the first call before it died, so that this call gets one attempt more.
    const n = i === 0 ? 2 : 1;
    expect(await producers.records.attempts(id)).toMatchObject([{ n, code: "runner.failed" }]);
  }
  await eventually("it is heard of", () => producer.readiness().checks["beating"] === true);
});

test("a call that fails for good in a full Redis is kept as failed", async () => {
  const call = aCall();
  await producers.add(call);
  await fill();
  runner.answer = () => ({ status: 400 });
  const { saw } = producers.start({ runnerUrl: runner.url });
  await saw("call.failed");
  await eventually("it is among the failed", async () => (await producers.queues.countIn("failed")) === 1);
  expect(await producers.records.state(call.id)).toBeUndefined();
  expect(await producers.records.attempts(call.id)).toHaveLength(1);
});
