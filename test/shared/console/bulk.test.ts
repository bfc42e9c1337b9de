import { expect, test } from "vitest";
import { type BulkRequest, createBulk } from "../../../shared/console/bulk.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { createFailedRecords } from "../../../shared/queue/call-record.ts";
import { ACT, useFailedCalls } from "../../fixtures/failed-calls.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { failPaid, USDC } from "../../services/console/paid-failures.ts";
import { partitionsOver } from "../../support/partitions.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });

const ALL: BulkRequest = { action: "discard", filter: {}, force: true, concurrency: 8, reason: "sent twice" };
const { signal } = new AbortController();

function bulkHere() {
  const partitions = partitionsOver(redis.client);
  return createBulk({
    ...{ partitions, clock: systemClock, log: silentLogger, by: "otto", runnerMemoryMs: 1e12 },
    tokens: { names: () => [] },
  });
}

const dueOf = (count: number, amount: string) => ({ ...sumOf(count, amount), is_whole: true });
const sumOf = (count: number, amount: string) => ({
  confirmed: { calls: count, amounts: [{ ...USDC, decimals: null, amount }] },
  unconfirmed: { calls: 0, amounts: [] },
  unreadable: 0,
});

test("a discard does not count a refund as due if another operator has replayed the paid call since the count", async () => {
  const [first = ""] = await failPaid(calls, [
    { ...USDC, amount: "1" },
    { ...USDC, amount: "20" },
    { ...USDC, amount: "300" },
  ]);
  const bulk = bulkHere();
  const counted = await bulk.count(ALL, signal);
  expect(counted.paid).toEqual(sumOf(3, "321"));
  await calls.replay(await calls.find(first), { selection: "by id" });
  const result = await bulk.operate(ALL, counted, { signal, onProgress() {} });
  expect(result).toMatchObject({ done: 2, left: 1, refundsDue: { ...sumOf(2, "320"), is_whole: false } });
});

test("a resumed discard adds its due refunds to those from before the interruption", async () => {
  await failPaid(calls, [
    { ...USDC, amount: "10" },
    { ...USDC, amount: "10" },
  ]);
  const bulk = bulkHere();
  const counted = await bulk.count(ALL, signal);
  const half = await bulk.operate(
    { ...ALL, limit: 1 },
    { ...counted, chosen: 1 },
    { signal, onProgress() {} },
  );
  expect(half.refundsDue).toEqual(dueOf(1, "10"));
  const progress: unknown[] = [];
  const whole = await bulk.operate(ALL, counted, {
    ...{ signal, before: half },
    onProgress: ({ done, refundsDue }) => progress.push([done, refundsDue]),
  });
  expect(whole.refundsDue).toEqual(dueOf(2, "20"));
  expect(progress).toEqual([[2, dueOf(2, "20")]]);
});

test("a discard does not count a refund as due if another discard had begun with the call, and says that its sum is incomplete", async () => {
  const [first = ""] = await failPaid(calls, [
    { ...USDC, amount: "1" },
    { ...USDC, amount: "20" },
  ]);
  const bulk = bulkHere();
  const counted = await bulk.count(ALL, signal);
  await createFailedRecords(redis.partition).beginDiscard(await calls.find(first), ACT);
  const result = await bulk.operate(ALL, counted, { signal, onProgress() {} });
  expect(result).toMatchObject({ done: 2, left: 0, refundsDue: { ...sumOf(1, "20"), is_whole: false } });
});

test("if two discards of the same calls run at once, each refund becomes due in exactly one of them", async () => {
  await failPaid(
    calls,
    Array.from({ length: 40 }, () => ({ ...USDC, amount: "1" })),
  );
  const bulk = bulkHere();
  const counted = await bulk.count(ALL, signal);
  const both = await Promise.all([1, 2].map(() => bulk.operate(ALL, counted, { signal, onProgress() {} })));
  const due = both.map(({ refundsDue }) => refundsDue?.confirmed.calls ?? 0);
  expect(due.reduce((sum, each) => sum + each, 0)).toBe(40);
});
