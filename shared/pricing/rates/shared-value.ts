import { sha256Hex } from "../../platform/crypto/compare.ts";
import { Secret } from "../../platform/crypto/secret.ts";
import { cut } from "../../platform/text/cut.ts";
import { defineScript, type Reply } from "../../redis/define-script.ts";
import type { Partition } from "../../redis/partition.ts";
import { flag, integer, nothing, text, tuple } from "../../redis/reply.ts";
import failedLua from "./failed.lua";
import { HISTORY, historyKey } from "./history.ts";
import peekLua from "./peek.lua";
import putLua from "./put.lua";
import type { LiveToken, RatedToken } from "./source.ts";
import takeDueLua from "./take-due.lua";

/*
 * Shares each rate among all replicas. It is stored in a Redis hash, with these fields:
 * - `value` is the rate, and `read_at` is the time at which its read began.
 * - `due_at` is the time from which the next read may begin.
 * - `failures` counts the failed reads since the last good one.
 * - `reason` and `failed_at` are the reason of the last failed read and the time at which it began. They are valid only while
 *   `failures` exists, because older releases delete only `failures` after a good read.
 * All times are by the clock of Redis, so the clocks of two machines need not agree.
 */

/**
 * Duration of the lease that a replica gets to read the source. No read takes that long. So a replica that has stored no outcome
 * by then has died, and another replica may read.
 */
const LEASE_MS = 15_000;
/** The wait after a failed read. It doubles with each further failure, up to `rate_refresh_secs`. */
const RETRY_MS = 5000;

const STORED = tuple(text, integer, integer, flag, text, integer);

const TAKE_DUE = defineScript({
  source: takeDueLua,
  keys: "rate",
  args: "leaseMs, dueMsMax, keepMs",
  proof: "expendable",
  reply: STORED,
});

const PEEK = defineScript({ source: peekLua, keys: "rate", proof: "reads", reply: STORED });

const PUT = defineScript({
  source: putLua,
  keys: "rate, ...histories",
  args: "readAt, refreshMs, keepMs, value",
  constants: HISTORY,
  proof: "expendable",
  reply: nothing,
});

const FAILED = defineScript({
  source: failedLua,
  keys: "rate",
  args: "readAt, refreshMs, keepMs, retryMs, reason",
  proof: "expendable",
  reply: nothing,
});

/** The reason why the last read of a source failed, and its start (unix milliseconds, by Redis' clock). */
export type RateFailure = { reason: string; at: number };

/** Maximum length of a reason. The reason of a median includes those of all its sources. */
const REASON_CHARS_MAX = 500;

/**
 * Makes the record of a failed read that began at `at`. Operators see the reason in the console, so no source may put a URL or a
 * credential in it.
 */
export function toRateFailure(reason: string, at: number): RateFailure {
  const isLong = reason.length > REASON_CHARS_MAX;
  return { reason: isLong ? `${cut(reason, REASON_CHARS_MAX - 3)}...` : reason, at };
}

export type SharedValue = {
  /** The last good value, the start of its read by Redis' clock, and its age. */
  known: { value: string; readAt: number; ageMs: number } | undefined;
  now: number;
  /** Undefined if the last completed read succeeded. */
  failure: RateFailure | undefined;
  /**
   * Whether the caller got the lease, and must now read the source. In each `rate_refresh_secs` only one replica gets it. After a
   * failed read, one gets it sooner.
   */
  due: boolean;
};

export type SharedRate = ReturnType<typeof createSharedValue>;

/**
 * Creates the functions that read and write the rate that all replicas share for these tokens. Each of them rejects while Redis
 * is unavailable.
 */
export function createSharedValue(
  partition: Partition,
  token: LiveToken,
  tokens: readonly LiveToken[] = [token],
) {
  const { redis, keys } = partition;
  const own = { rate: keys.rate(identityOf(token)) };
  const histories = tokens.map((each) => historyKey(partition, each));
  const refreshMs = token.rate_refresh_secs * 1000;
  const keepMs = refreshMs + token.max_rate_age_secs * 1000;
  const dueMsMax = Math.max(LEASE_MS, refreshMs);
  const [takeDue, peek, put, failed] = [TAKE_DUE.on(redis), PEEK.on(redis), PUT.on(redis), FAILED.on(redis)];
  return {
    takeDue: async () => toShared(await takeDue(own, { leaseMs: LEASE_MS, dueMsMax, keepMs })),
    /** Reads the value without taking the lease. */
    peek: async () => toShared(await peek(own)),
    /** Stores the value, and adds it to the history of each token. */
    async put(value: string, readAt: number): Promise<void> {
      await put({ ...own, histories }, { readAt, refreshMs, keepMs, value });
    },
    /** Records why the read that began at `readAt` failed. After a short wait, any replica may read again. */
    async failed(readAt: number, why: string): Promise<void> {
      const { reason } = toRateFailure(why, readAt);
      await failed(own, { readAt, refreshMs, keepMs, retryMs: RETRY_MS, reason });
    },
  };
}

function toShared([value, readAt, now, due, reason, failedAt]: Reply<typeof PEEK>): SharedValue {
  const known = value === "" ? undefined : { value, readAt, ageMs: Math.max(0, now - readAt) };
  const failure = reason === "" ? undefined : { reason, at: failedAt };
  return { known, now, failure, due };
}

/**
 * Returns an id of the settings of a token's rate: its source, bounds and times. Replicas and tokens share a rate if their ids
 * are equal. The URLs and headers of a source count as a whole, because any part of them may change its answer. So a replica with
 * an old credential and one with a new credential share no rate.
 */
export function identityOf(token: RatedToken): string {
  const { rate_per_native_unit, min_rate, max_rate, rate_refresh_secs, max_rate_age_secs } = token;
  const settings = { rate_per_native_unit, min_rate, max_rate, rate_refresh_secs, max_rate_age_secs };
  return sha256Hex(Buffer.from(JSON.stringify(comparable(settings)))).slice(0, 32);
}

/** Returns the settings with sorted keys, and with the SHA-256 of each secret in its place. */
function comparable(value: unknown): unknown {
  if (value instanceof Secret) return sha256Hex(Buffer.from(value.reveal()));
  if (Array.isArray(value)) return value.map(comparable);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return entries.map(([name, inner]) => [name, comparable(inner)]);
}
