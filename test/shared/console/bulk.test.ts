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

test("what a discard made due leaves out a paid call that somebody else has replayed since it was counted", async () => {
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

test("a discard that goes on adds what it makes due to what it had made due before", async () => {
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
  const told: unknown[] = [];
  const whole = await bulk.operate(ALL, counted, {
    ...{ signal, before: half },
    onProgress: ({ done, refundsDue }) => told.push([done, refundsDue]),
  });
  expect(whole.refundsDue).toEqual(dueOf(2, "20"));
  expect(told).toEqual([[2, dueOf(2, "20")]]);
});

test("what a discard made due leaves out a paid call that another discard had begun with, and says so", async () => {
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

test("of two discards of the same calls at once each refund becomes due in one", async () => {
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
