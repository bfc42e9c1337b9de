import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { runnerKeys, useOwnRedis } from "../../fixtures/redis.ts";
import { answerOf, openCalls, usedBytes } from "./stores.ts";

const redis = useOwnRedis();
const ends = useEnds();

const CALLS = 5000;

/** Measures how many bytes of Redis a finished call takes, over all its keys. */
async function bytesPerCall(answerBytes: number, options: { answerMs?: number } = {}): Promise<number> {
  const { run } = await openCalls(redis, ends, options);
  await run(100, answerOf(answerBytes)); // so that Redis knows the scripts before the measurement
  await redis.client.flushdb();
  const before = await usedBytes(redis);
  await run(CALLS, answerOf(answerBytes));
  if (options.answerMs === 1) await eventually("all answers have expired", isForgotten);
  return ((await usedBytes(redis)) - before) / CALLS;
}

/**
 * Whether Redis holds no expired answers. Reads every answer's key, because Redis deletes an expired key when it is read, and
 * the last expired keys otherwise only very slowly.
 */
async function isForgotten(): Promise<boolean> {
  const calls = await redis.client.keys(runnerKeys.call("*"));
  await redis.client.exists(...calls.map((key) => runnerKeys.answer(key.slice(runnerKeys.call("").length))));
  return (await redis.client.dbsize()) <= CALLS + 4;
}

test("a finished call whose answer was evicted takes less than 400 bytes of Redis, including all keys", async () => {
  expect(await bytesPerCall(10_000, { answerMs: 1 })).toBeLessThan(400);
  const [key = ""] = await redis.client.keys(runnerKeys.call("c_*"));
  expect(await redis.client.object("ENCODING", key)).toBe("listpack");
});

test("a finished call with an answer of 1 kB takes no more than 2 kB of Redis, and one of 10 kB no more than 12", async () => {
  expect(await bytesPerCall(1000)).toBeLessThan(2000);
  expect(await bytesPerCall(10_000)).toBeLessThan(12_000);
});

test("the counted size of kept answers is the memory that they take in Redis, within a tenth", async () => {
  const without = await bytesPerCall(0);
  const kept = await bytesPerCall(1000);
  const counted = Number(await redis.client.get(runnerKeys.answersBytes)) / CALLS;
  expect(counted / (kept - without)).toBeGreaterThan(0.9);
  expect(counted / (kept - without)).toBeLessThan(1.1);
});
