import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { createStatus, perMinute } from "../../../shared/queue/status.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { useFailedCalls } from "../../fixtures/failed-calls.ts";

const fixture = useFailedCalls();

const look = (sampleMs = 10) =>
  createStatus({
    partition: partitionOf(fixture.redis.client),
    mode: "strict",
    clock: systemClock,
    sampleMs,
  })();

test("status counts the calls that wait and those that failed, each queue by itself, and how long the oldest has waited", async () => {
  await fixture.fail([{}, { origin: "x402" }]);
  await Promise.all([fixture.add(), fixture.add()]);
  const { queues, redis, workers } = await look();
  expect(queues).toMatchObject([
    { queue: "webhook/7/1", waiting: 2, failed: 1, active: 0, delayed: 0, oldestAgeMs: expect.any(Number) },
    { queue: "x402/7/1", waiting: 0, failed: 1, oldestAgeMs: undefined },
  ]);
  expect(redis).toMatchObject({ mode: "strict", proof: "always" });
  expect(workers).toEqual([]);
});

test("status counts every call accepted during its sample", async () => {
  const [{ queues }] = await Promise.all([look(300), eventually("added", () => fixture.add())]);
  expect(queues[0]?.acceptedPerSecond).toBeGreaterThan(2);
  expect(queues[0]?.acceptedPerSecond).toBeLessThan(3.5);
});

test("status names the workers alive, and the rates at which calls are injected and fail", async () => {
  await fixture.fail([{}, {}]);
  await fixture.startProducer();
  const id = await fixture.add();
  await eventually("injected", async () => (await fixture.records.state(id)) === "INJECTED");
  const status = await eventually("a worker and its rate are seen", async () => {
    const seen = await look();
    return seen.workers.length === 1 && (seen.queues[0]?.injectedPerMinute ?? 0) > 0 ? seen : undefined;
  });
  expect(status.workers[0]?.ageMs).toBeLessThan(6000);
  expect(status.queues[0]?.injectedPerMinute).toBeCloseTo((status.queues[0]?.failedPerMinute ?? 0) / 2);
});

test("rates are the mean of the last five minutes and the one that runs, also when nothing ended since", () => {
  const minute = 60_000;
  const now = 100 * minute;
  const rate = (prevTS: number, at = now) =>
    perMinute({ meta: { count: 107, prevTS, prevCount: 100 }, data: [10, 20, 30, 40, 50, 600] }, at);
  expect(rate(100 * minute)).toBe((7 + 10 + 20 + 30 + 40 + 50) / 5);
  expect(rate(99 * minute)).toBe((0 + 7 + 10 + 20 + 30 + 40) / 5);
  expect(rate(90 * minute)).toBe(0);
  expect(rate(100 * minute, now + minute / 2)).toBe((7 + 10 + 20 + 30 + 40 + 50) / 5.5);
  expect(perMinute({ meta: { count: 0, prevTS: 0, prevCount: 0 }, data: [] }, now)).toBe(0);
});
