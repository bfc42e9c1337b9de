import { expect, test } from "vitest";
import { useEnds } from "../fixtures/ends.ts";
import { useOwnRedis } from "../fixtures/redis.ts";
import { answerOf, openCalls, usedBytes } from "../services/runner/stores.ts";
import { onlyInLongRun } from "../support/long-run.ts";
import { readDocument } from "./blocks.ts";

const page = readDocument("docs/sizing.md");
const number = (text = "") => Number(text.replaceAll(",", ""));

const parts = [...page.matchAll(/^\| (the key|its place|an answer of (\d+) kB)[^|]*\| (\d+) \|/gm)];
const bytesOf = (start: string) => number(parts.find(([, part]) => part === start)?.[3]);
const sizes = /^\| ([\d,]+) \| (\d+) kB \| (\d+) days \| ([\d.]+) GB \| ([\d.]+) GB \|$/gm;

const CALLS = 5000;

/** Expects the documented number to be within a tenth of the measured one. */
function expectNear(said: number, measured: number, what?: string): void {
  expect(measured / said, what).toBeGreaterThan(0.9);
  expect(measured / said, what).toBeLessThan(1.1);
}

onlyInLongRun(() => {
  const redis = useOwnRedis();
  const ends = useEnds();

  /** Measures the bytes in Redis per call. Each call ends with an answer of this size. */
  async function bytesPerCall(answerBytes: number, answerMs?: number): Promise<number> {
    const { run } = await openCalls(redis, ends, answerMs === undefined ? {} : { answerMs });
    await run(100, answerOf(answerBytes)); // from now on, Redis has the scripts
    await redis.client.flushdb();
    const before = await usedBytes(redis);
    await run(CALLS, answerOf(answerBytes));
    return ((await usedBytes(redis)) - before) / CALLS;
  }

  test("docs/sizing.md gives the bytes of a finished call in the runner's Redis within a tenth", async () => {
    const remembered = await bytesPerCall(0, 1);
    expectNear(bytesOf("the key"), remembered);
    const listed = await bytesPerCall(0);
    expectNear(bytesOf("its place"), listed - remembered);
    for (const kilobytes of [1, 10]) {
      const whole = await bytesPerCall(kilobytes * 1000);
      expectNear(bytesOf(`an answer of ${kilobytes} kB`), whole - listed);
    }
  });
});

test("the table of sizes in docs/sizing.md follows from the bytes of a call and the defaults", () => {
  const rows = [...page.matchAll(sizes)];
  expect(rows).toHaveLength(5);
  for (const [row, calls, kilobytes, days, holds, maxmemory] of rows) {
    const answers = Math.min(2 ** 28, number(calls) * bytesOf(`an answer of ${kilobytes} kB`));
    const remembered = number(calls) * (number(days) * bytesOf("the key") + bytesOf("its place"));
    expectNear(number(holds), (remembered + answers) / 1e9, row);
    expectNear(number(maxmemory), (remembered + answers) / 1e9 / 0.675, row);
  }
});
