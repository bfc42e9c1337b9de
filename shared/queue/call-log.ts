import { cut } from "../platform/text/cut.ts";
import { parseJson } from "../platform/text/parse-json.ts";
import { wellFormedJson } from "../platform/text/well-formed-json.ts";

/*
 * The log of a call: its failed attempts, and the replays, early runs and the discard between them. The step of each act writes its entry,
 * so a crash leaves none out. The forms of the entries are in call-log.lua.
 *
 * The audit has replays and discards as well, but of all calls together: to find those of one call, a reader would go through everything
 * that operators did since the call was accepted.
 */

/**
 * How many entries of a kind are kept, the newest: failed attempts, attempts after which the call failed for good, replays, and early runs.
 * While Redis is nearly full, only the newest entry is kept.
 */
export const LOG_KEPT = 5;

/** A failed attempt, as a producer writes it. */
export type NewAttempt = {
  at: number;
  code: string;
  reason: string;
  worker: string;
  /** Duration. Absent if an earlier build made the attempt. */
  ms?: number | undefined;
  /** HTTP status of the runner's or receiver's answer, if there was one. */
  status?: number | undefined;
};

/** The `n`-th attempt of a call since it was accepted, however often it was replayed. `failedAt` is when the call failed for good after it. */
export type FailedAttempt = NewAttempt & { n: number; failedAt: number | undefined };

/** `n` is how many attempts there were up to then. The times are unix ms. */
export type LogEntry =
  | (FailedAttempt & { kind: "attempt" })
  /** The call failed for good without an attempt; `reason` begins with the code. */
  | { kind: "failed"; n: number; at: number; reason: string }
  /** The outcome of the `n`-th attempt was not recorded: its producer ended, stopped or lost the call. */
  | { kind: "lost"; n: number; at: number }
  /** By an operator, and why. */
  | {
      kind: "replayed" | "run early" | "discarded";
      n: number;
      at: number;
      by: string;
      reason: string | undefined;
    };

/** What is kept, the oldest first; and how many attempts and replays there were in all, except for an attempt that succeeded. */
export type CallLog = { entries: readonly LogEntry[]; attempts: number; replays: number };

type Stored = NewAttempt & { n: number; life?: number; take?: number; by?: string } & Partial<
    Record<"failed" | "lost" | "replayed" | "early" | "discarded", number>
  >;

/** Reads the lines of a log as they are stored. */
export function toCallLog(lines: readonly string[]): CallLog {
  const stored = lines.map((line) => JSON.parse(line) as Stored);
  const { n: attempts = 0, life = 1 } = stored.at(-1) ?? {};
  return { entries: stored.map(toEntry), attempts, replays: life - 1 };
}

/** The `code: reason` of an entry as it is stored. Undefined if it is empty or has none. */
export function errorOf(line: string): string | undefined {
  const entry = line === "" ? undefined : (parseJson(line) as Partial<Stored> | undefined);
  if (entry?.reason === undefined) return undefined;
  return entry.code === undefined ? entry.reason : `${entry.code}: ${entry.reason}`;
}

function toEntry({ n, take, failed, lost, replayed, early, discarded, ...stored }: Stored): LogEntry {
  const { at, code, reason, worker, ms, status, by = "" } = stored;
  if (lost !== undefined) return { kind: "lost", n, at: lost };
  if (replayed !== undefined) return { kind: "replayed", n, at: replayed, by, reason };
  if (early !== undefined) return { kind: "run early", n, at: early, by, reason };
  if (discarded !== undefined) return { kind: "discarded", n, at: discarded, by, reason };
  if (failed !== undefined && take === undefined) return { kind: "failed", n, at: failed, reason };
  return { kind: "attempt", n, at, code, reason, worker, ms, status, failedAt: failed };
}

/** The audit has the whole of a longer reason. */
const REASON_MAX = 200;

/** Who replayed, ran early or discarded a call, and why, as the Lua takes it. */
export function noteOf(by: string, reason: string | undefined): string {
  const isLong = reason !== undefined && reason.length > REASON_MAX;
  return wellFormedJson({
    by,
    reason: isLong ? `${cut(reason, REASON_MAX - 1)}…` : reason,
  });
}
