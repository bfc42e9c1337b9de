import { expect, test } from "vitest";
import { composeProducer } from "../../services/producer/producer.ts";
import { createEnqueue } from "../../services/webhooks-gateway/enqueue.ts";
import { randomCallId } from "../../shared/call/call-id.ts";
import { posternToml } from "../../shared/config/postern-toml.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { silentLogger } from "../../shared/platform/log/logger.ts";
import { useEnds } from "../fixtures/ends.ts";
import { aCall } from "../fixtures/producer.ts";
import { useOwnRedis } from "../fixtures/redis.ts";
import { usedBytes } from "../services/runner/stores.ts";
import { onlyInLongRun } from "../support/long-run.ts";
import { partitionsOver } from "../support/partitions.ts";
import { readDocument } from "./blocks.ts";

const page = readDocument("docs/sizing.md");
const number = (text = "") => Number(text.replaceAll(",", ""));
const bytesOf = (part: string) => number(page.split(`\n| ${part}`)[1]?.match(/\| (\d+)/)?.[1]);
const sizes = /^\| ([\d,]+) \| ([\d.]+) GB \| ([\d.]+) GB \|$/gm;

const WEEK_MS = 7 * 86_400_000;
const AT_ONCE = 100;
const CALLS = 20_000;
/** Parts of `maxmemory` above which eviction begins, and above which webhooks are refused (docs/redis.md). */
const [EVICTS, CLOSES] = [0.675, 0.85];

/** Expects the documented number to be within a tenth of the measured one. */
function expectNear(said: number, measured: number, what?: string): void {
  expect(measured / said, what).toBeGreaterThan(0.9);
  expect(measured / said, what).toBeLessThan(1.1);
}

onlyInLongRun(() => {
  const redis = useOwnRedis();
  const ends = useEnds();

  /** Measures the bytes in Redis per injected call. */
  async function bytesPerCall(withId: boolean): Promise<number> {
    const enqueue = createEnqueue(redis.partition);
    let injected = 0;
    const inject = async () => {
      injected += 1;
    };
    const postern = { ...posternToml({ env: {} }).parse({ console: { history_secs: 0 } }) };
    const run = async (count: number): Promise<number> => {
      injected = 0;
      for (let made = 0; made < count; made += AT_ONCE)
        await Promise.all(
          Array.from({ length: AT_ONCE }, () => {
            const call = aCall({ id: randomCallId() });
            const known = { by: "12345678", bodySha256: call.sha256, windowMs: WEEK_MS };
            return enqueue(call, withId ? known : undefined);
          }),
        );
      const producer = composeProducer({
        postern,
        inject,
        partitions: partitionsOver(redis.client),
        log: silentLogger,
      });
      ends.defer(() => producer.close(1000));
      await eventually("all are injected", () => injected === count);
      await producer.close(1000);
      return usedBytes(redis);
    };
    await redis.client.flushdb();
    const before = await run(AT_ONCE); // from now on, Redis has the scripts
    return ((await run(CALLS)) - before) / CALLS;
  }

  test("docs/sizing.md gives the bytes in Redis of an injected call within a tenth", {
    timeout: 120_000,
  }, async () => {
    expectNear(bytesOf("a remembered delivery id"), await bytesPerCall(true));
    expectNear(bytesOf("an injected call without a delivery id"), await bytesPerCall(false));
  });
});

test("the table of remembered deliveries in docs/sizing.md follows from the bytes of each and the window", () => {
  const rows = [...page.matchAll(sizes)];
  expect(rows).toHaveLength(4);
  for (const [row, deliveries, holds, maxmemory] of rows) {
    const bytes = number(deliveries) * 7 * bytesOf("a remembered delivery id");
    expectNear(number(holds), bytes / 1e9, row);
    expectNear(number(maxmemory), bytes / 1e9 / EVICTS, row);
  }
  const [, closes] = /closes to webhooks at about ([\d,]+) deliveries a day/.exec(page) ?? [];
  expectNear(number(closes), (CLOSES * 1e9) / 7 / bytesOf("a remembered delivery id"));
});
