import { composeProducer, type Inject, Refused } from "../../services/producer/producer.ts";
import { createCallStore } from "../../services/runner/call-store.ts";
import { KeptAnswers } from "../../services/runner/kept-answers.ts";
import { createEnqueue } from "../../services/webhooks-gateway/enqueue.ts";
import { randomCallId } from "../../shared/call/call-id.ts";
import { createDeliverResult } from "../../shared/call-search/deliver-result.ts";
import { posternToml } from "../../shared/config/postern-toml.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { sha256Hex } from "../../shared/platform/crypto/compare.ts";
import { silentLogger } from "../../shared/platform/log/logger.ts";
import { connectForWork, type Redis } from "../../shared/redis/connect.ts";
import { DurableRedis } from "../../shared/redis/durable.ts";
import { DEFAULT_NAME, runnerKeysOf, runnerPrefixOf } from "../../shared/redis/keys.ts";
import { partitionOf } from "../../shared/redis/partition.ts";
import { partitionsOver } from "../../test/support/partitions.ts";
import { newCall } from "../support/new-call.ts";
import { openProbe } from "../support/redis-probe.ts";
import type { Setup } from "../support/setup.ts";
import { table } from "../support/table.ts";
import { BODY, inWorkspace } from "../support/world.ts";

const DAY_MS = 86_400_000;
const AT_ONCE = 100;
/** Number of items made before the first measurement, so that Redis has loaded all scripts and their memory does not count. */
const WARM_UP = 100;

/** Functions that make the items of one row, such as waiting calls. */
type Kept = {
  make(): Promise<unknown>;
  /** Brings all made items into the state that is measured, for example has a producer inject them. */
  settle?(): Promise<void>;
  close?(): void;
};

type Row = { what: string; bodyBytes: number; keptFor: string; open(redis: Redis): Kept | Promise<Kept> };

const refuse: Inject = async () => {
  throw new Refused("the runner answered 404: it does not have this job");
};
const inject: Inject = async () => {};

/** Configuration of a producer without the history of calls. The history's memory would distort the measurement. */
const PRODUCER = posternToml({ env: {} }).parse({ console: { history_secs: 0 } });

const CALL = { bodyBytes: Buffer.byteLength(BODY) };

const ROWS: readonly Row[] = [
  { what: "a call that waits", ...CALL, keptFor: "", open: calls({}) },
  { what: "the same with a delivery id", ...CALL, keptFor: "", open: calls({ withId: true }) },
  { what: "a call that was injected", ...CALL, keptFor: "an hour", open: calls({ inject }) },
  {
    ...{ what: "the same with a delivery id", ...CALL, keptFor: "its window" },
    open: calls({ inject, withId: true }),
  },
  { what: "a call that failed", ...CALL, keptFor: "", open: calls({ inject: refuse }) },
  ...[1000, 10_000].map((bytes) => ofRunner("the runner's, with its answer", bytes, DAY_MS)),
  ofRunner("the runner's, without it", 1000, 1),
  ...[100, 1000, 10_000, 100_000].map(ofResults),
];

export type MemoryFigures = { bytes: readonly (Omit<Row, "open"> & { each: number })[] };

/**
 * Measures the bytes that Redis needs for one item of each kind. Divides the growth of `used_memory` by the number of new
 * items.
 */
export async function measureMemory({ quick }: Setup): Promise<MemoryFigures> {
  const count = quick ? 1000 : 10_000;
  const bytes = [];
  for (const { open, ...row } of ROWS) bytes.push({ ...row, each: await bytesOfEach(open, count) });
  return { bytes };
}

function bytesOfEach(open: Row["open"], count: number): Promise<number> {
  return inWorkspace([], async ({ startRedis }) => {
    const { url } = await startRedis([]);
    const { redis, usedBytes, close } = await openProbe(url, connectForWork);
    const kept = await open(redis);
    const make = async (times: number): Promise<number> => {
      for (let made = 0; made < times; made += AT_ONCE)
        await Promise.all(Array.from({ length: AT_ONCE }, kept.make));
      await kept.settle?.();
      return usedBytes();
    };
    const before = await make(WARM_UP);
    const after = await make(count);
    kept.close?.();
    close();
    return (after - before) / count;
  });
}

/**
 * Returns the `open` function of a row whose items are calls. The calls are added to the queue with the gateway's code.
 * With `inject`, a producer then takes them, and calls `inject` in place of a request to a runner.
 */
function calls({ withId = false, inject }: { withId?: boolean; inject?: Inject }): Row["open"] {
  return (redis) => {
    const enqueue = createEnqueue(partitionOf(redis));
    const windowMs = 7 * DAY_MS;
    let open = 0;
    const kept: Kept = {
      async make() {
        const call = newCall();
        open += 1;
        await enqueue(call, withId ? { by: "bench", windowMs, bodySha256: call.sha256 } : undefined);
      },
    };
    if (inject === undefined) return kept;
    return {
      ...kept,
      async settle() {
        const ending: Inject = async (...taken) => {
          open -= 1;
          return inject(...taken);
        };
        const producer = composeProducer({
          postern: PRODUCER,
          partitions: partitionsOver(redis),
          log: silentLogger,
          inject: ending,
        });
        await eventually("all calls were offered to the runner", () => open === 0);
        await producer.close(60_000);
      },
    };
  };
}

/** Returns the row for a call that the reference runner has answered with 2xx. The runner keeps the answer for `answerMs`. */
function ofRunner(what: string, bodyBytes: number, answerMs: number): Row {
  return {
    ...{ what, bodyBytes, keptFor: answerMs === DAY_MS ? "answer_secs" : "memory_secs" },
    async open(redis) {
      const durable = new DurableRedis({ redis, mode: "strict", log: silentLogger });
      const keys = runnerKeysOf(runnerPrefixOf(DEFAULT_NAME));
      const bounds = { resultBytesMax: 2 ** 18, answersBytesMax: 2 ** 30, answersMemoryRatioMax: 1 };
      const answers = new KeptAnswers({ durable, keys, answerMs, ...bounds, log: silentLogger });
      await durable.firstCheck;
      const options = { durable, keys, owner: "bench", leaseMs: 30_000, memoryMs: 30 * DAY_MS, answers };
      const store = createCallStore(options);
      const body = Buffer.alloc(bodyBytes, "x");
      return {
        async make() {
          const callId = randomCallId();
          const call = { callId, jobId: 1, bytes: 300, sha256: sha256Hex(Buffer.from(callId)) };
          await store.begin(call);
          await store.finish(call, { status: 200, contentType: "application/json", body });
        },
        close() {
          answers.stop();
          durable.stop();
        },
      };
    },
  };
}

/** Returns the row for a result that Postern keeps for the client, together with the record of the result's call. */
function ofResults(bodyBytes: number): Row {
  return {
    ...{ what: "a kept result", bodyBytes, keptFor: "results.secs" },
    open(redis) {
      const deliver = createDeliverResult(partitionOf(redis), {
        ...{ resultMs: 86_400_000, resultBytesMax: 256 * 1024, bytesMax: 2 ** 31 },
      });
      const answer = {
        kind: "answer",
        status: 200,
        contentType: "application/json",
        by: "delivery",
      } as const;
      const body = Buffer.alloc(bodyBytes, "x");
      return { make: () => deliver(randomCallId(), { ...answer, body, at: Date.now() }) };
    },
  };
}

export function memoryTable({ bytes }: MemoryFigures): string {
  return table(
    ["Redis keeps", "body bytes", "bytes", "for"],
    bytes.map(({ what, bodyBytes, each, keptFor }) => [what, bodyBytes, Math.round(each), keptFor]),
  );
}
