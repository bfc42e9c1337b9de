import { cut } from "../platform/text/cut.ts";
import { parseJson } from "../platform/text/parse-json.ts";
import { wellFormedJson } from "../platform/text/well-formed-json.ts";

/*
 * The log of a call: its failed attempts, replays, early runs and its discard, in the order of time. The script that makes a
 * change also writes the log entry, so a crash cannot lose one. call-log.lua has the format of the entries.
 *
 * The audit log also has replays and discards, but of all calls together. To find there the acts on one call, a reader would
 * have to scan all acts of operators since the call was accepted.
 */

/**
 * Maximum number of kept entries of each kind: failed attempts, attempts after which the call failed for good, replays, and
 * early runs. The newest are kept. While Redis is nearly full, only the newest entry of all is kept.
 */
export const LOG_KEPT = 5;

/** A failed attempt, as a producer records it. */
export type NewAttempt = {
  at: number;
  code: string;
  reason: string;
  worker: string;
  /** Duration. Undefined if an earlier release logged the attempt, because it did not store the duration. */
  ms?: number | undefined;
  /** HTTP status of the runner's or receiver's answer, if there was one. */
  status?: number | undefined;
};

/** The `n`-th attempt of a call since it was accepted, across replays. `failedAt` is set if the call then failed for good. */
export type FailedAttempt = NewAttempt & { n: number; failedAt: number | undefined };

/** An entry of the log. `n` is the number of attempts up to this entry. The times are unix ms. */
export type LogEntry =
  | (FailedAttempt & { kind: "attempt" })
  /** The call failed for good without an attempt; `reason` begins with the code. */
  | { kind: "failed"; n: number; at: number; reason: string }
  /** The outcome of the `n`-th attempt is unknown, because its producer died, was stopped, or lost the call to another one. */
  | { kind: "lost"; n: number; at: number }
  /** An act of the operator `by`. */
  | {
      kind: "replayed" | "run early" | "discarded";
      n: number;
      at: number;
      by: string;
      reason: string | undefined;
    };

/** The kept entries, oldest first, and the total numbers of attempts and replays. A successful attempt does not count. */
export type CallLog = { entries: readonly LogEntry[]; attempts: number; replays: number };

type Stored = NewAttempt & { n: number; life?: number; take?: number; by?: string } & Partial<
    Record<"failed" | "lost" | "replayed" | "early" | "discarded", number>
  >;

/** Parses the lines of a log. */
export function toCallLog(lines: readonly string[]): CallLog {
  const stored = lines.map((line) => JSON.parse(line) as Stored);
  const { n: attempts = 0, life = 1 } = stored.at(-1) ?? {};
  return { entries: stored.map(toEntry), attempts, replays: life - 1 };
}

/** Returns the `code: reason` of a stored entry. Undefined if the line is empty or has no reason. */
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

/** Maximum length of a reason in the log. The audit log always has the full reason. */
const REASON_MAX = 200;

/**
 * Encodes the operator `by` and the reason of a replay, early run or discard as JSON. The Lua scripts add it to the call's
 * log.
 */
export function noteOf(by: string, reason: string | undefined): string {
  const isLong = reason !== undefined && reason.length > REASON_MAX;
  return wellFormedJson({
    by,
    reason: isLong ? `${cut(reason, REASON_MAX - 1)}…` : reason,
  });
}
