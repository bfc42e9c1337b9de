import { z } from "zod";
import { ENDED_STATES } from "../call/record-state.ts";
import { createCallRecords } from "../queue/call-record.ts";
import { createFailedIndex } from "../queue/failed-index.ts";
import { RANDOM_ID_KEEP_MS } from "../queue/protocol.ts";
import { createReadAudit } from "../redis/audit/read.ts";
import { askOwn } from "../redis/merge.ts";
import type { Partitions } from "../redis/partition.ts";
import type { Run } from "./runs/run.ts";
import { count } from "./view.ts";

/** Numbers of the calls that a bulk replay has queued again, by their present outcome. */
export const ReplayOutcome = z
  .object({
    injected: count,
    failed_again: count,
    /** Calls in the queue or in flight. */
    waiting: count,
    /** Calls that were discarded or refunded since, or are no longer known. */
    other: count,
    /** False if these are only some of the calls: at most the newest 1000 are counted. */
    is_whole: z.boolean(),
  })
  .meta({ id: "ReplayOutcome" });
export type ReplayOutcome = z.infer<typeof ReplayOutcome>;

const CALLS_MAX = 1000;
/**
 * Assumed maximum difference between the clock that dates a bulk replay and the clock that dates its lines in the audit
 * log. The search for these lines begins this long before the replay.
 */
const CLOCK_DIFFERENCE_MS_MAX = 3_600_000;

export type ReadReplayOutcome = (run: Pick<Run, "id" | "at">, done: number) => Promise<ReplayOutcome>;

/** Reads the current state of the calls of a replay. Takes their ids from the audit log. */
export function createReadReplayOutcome(partitions: Partitions, clock: () => number): ReadReplayOutcome {
  const readAudit = createReadAudit(partitions);
  const indexes = partitions.map(createFailedIndex);
  const records = partitions.map(createCallRecords);

  async function failedOf(ids: readonly string[]): Promise<Set<string>> {
    const found = await askOwn(indexes, ids, async (index, own) => {
      const failed: string[] = [];
      for await (const refs of index.find(own, {})) failed.push(...refs.map(({ id }) => id));
      return failed;
    });
    return new Set(found.flat());
  }

  return async function readReplayOutcome({ id, at }, done) {
    const wanted = { action: "replay", run: id, since: at - CLOCK_DIFFERENCE_MS_MAX } as const;
    const { entries } = await readAudit(wanted, { limit: CALLS_MAX });
    const ids = [...new Set(entries.flatMap(({ fields }) => fields["call_id"] ?? []))];
    const failed = await failedOf(ids);
    const rest = ids.filter((each) => !failed.has(each));
    const states = await Promise.all(rest.map(async (each) => records.of(each).state(each)));
    // A webhook without a delivery id may get its record only when it ends. So a call without a record still waits if the
    // replay is recent. Otherwise its record has expired.
    const isRecent = clock() - at < RANDOM_ID_KEEP_MS;
    const injected = states.filter((state) => state === "INJECTED").length;
    const waiting = states.filter((state) =>
      state === undefined ? isRecent : !ENDED_STATES.some((ended) => ended === state),
    ).length;
    return {
      injected,
      failed_again: failed.size,
      waiting,
      other: rest.length - injected - waiting,
      is_whole: ids.length >= done,
    };
  };
}
