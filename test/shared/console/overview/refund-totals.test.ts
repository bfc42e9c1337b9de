import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createReadRefundTotals } from "../../../../shared/console/overview/refund-totals.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { useRedis } from "../../../fixtures/redis.ts";
import { failPaid, USDC } from "../../../services/console/paid-failures.ts";
import { partitionsOver } from "../../../support/partitions.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["performance"] });
});
afterEach(() => {
  vi.useRealTimers();
});

test("the last totals are returned without waiting for Redis, which is read in the background, unless they are older than a minute", async () => {
  const read = createReadRefundTotals(partitionsOver(redis.client), () => undefined);
  const failed = async () => (await read()).failed.confirmed.calls;
  expect(await failed()).toBe(0);
  await failPaid(calls, [{ ...USDC, amount: "1" }]);
  vi.advanceTimersByTime(11_000);
  await redis.client.call("CLIENT", "PAUSE", "500", "ALL");
  const answered: unknown[] = [];
  await Promise.all([
    failed().then((count) => answered.push(count)),
    redis.client.ping().then(() => answered.push("Redis")),
  ]);
  expect(answered).toEqual([0, "Redis"]);
  await eventually("they are read behind", async () => (await failed()) === 1);
  await failPaid(calls, [{ ...USDC, amount: "1" }]);
  vi.advanceTimersByTime(61_000);
  expect(await failed()).toBe(2);
});
