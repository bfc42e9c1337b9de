import { sha256Hex } from "../../crypto/compare.ts";
import { Secret } from "../../crypto/secret.ts";
import type { Partition } from "../../redis/partition.ts";
import { NOW, script } from "../../redis/script.ts";
import { VERSIONS } from "../../redis/version.ts";
import { cut } from "../../text/cut.ts";
import { historyKeys, KEEP_READING } from "./history.ts";
import type { LiveToken, RatedToken } from "./source.ts";

/*
 * Redis holds for each rate: v, value, read_at (when its read began), due_at (when the next read may begin), failures (the failed
 * reads since the last good one), and of the last of those reason and failed_at (when it began). All times are Redis' own, so the
 * clocks of two machines need not agree. A release that knows of no reasons leaves the last one when it takes the failures back.
 */

/** How long a replica has a due read to itself. Longer than any read takes: a replica that is silent by then has died. */
const LEASE_MS = 15_000;
/** The wait after a failed read. It doubles with each further one, up to the usual period. */
const RETRY_MS = 5000;

/** If a change of server set the clock back, an old value must not look young. */
const STORED = `${NOW}
local found = redis.call('HMGET', KEYS[1], 'value', 'read_at', 'due_at', 'failures', 'reason', 'failed_at')
local value, read_at, due_at = found[1], tonumber(found[2] or ''), tonumber(found[3] or '')
local reason, failed_at = found[4] and found[5] or '', tonumber(found[6] or 0)
if not read_at or read_at > now + 5000 then value, read_at = '', 0 end`;

/** ARGV: the lease, the longest time until the next read is due, how long to keep. */
const TAKE_DUE = `${STORED}
local due = not due_at or due_at <= now or due_at > now + tonumber(ARGV[2])
if due then
  redis.call('HSET', KEYS[1], 'v', ${VERSIONS.rate}, 'due_at', now + tonumber(ARGV[1]))
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return {value, read_at, now, due and 1 or 0, reason, failed_at}`;

const PEEK = `${STORED}
return {value, read_at, now, 0, reason, failed_at}`;

/**
 * KEYS: the rate, the histories of its tokens. ARGV: when the read began, the period, how long to keep, the value. A slow read does
 * not undo a later one.
 */
const PUT = `${STORED}${KEEP_READING}
if read_at > tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'v', ${VERSIONS.rate}, 'value', ARGV[4], 'read_at', ARGV[1], 'due_at', ARGV[1] + ARGV[2])
redis.call('HDEL', KEYS[1], 'failures', 'reason', 'failed_at')
redis.call('PEXPIRE', KEYS[1], ARGV[3])
keepReading(2, tonumber(ARGV[1]), ARGV[4])
return 1`;

/** ARGV: when the read began, the period, how long to keep, the first wait, the reason. */
const FAILED = `${STORED}
if read_at > tonumber(ARGV[1]) then return 0 end
local failures = redis.call('HINCRBY', KEYS[1], 'failures', 1)
local wait = math.min(tonumber(ARGV[2]), ARGV[4] * 2 ^ math.min(failures - 1, 30))
redis.call('HSET', KEYS[1], 'v', ${VERSIONS.rate}, 'due_at', now + wait, 'reason', ARGV[5], 'failed_at', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`;

/** Why the last read of a source failed, and when it began (unix milliseconds, by Redis' clock). */
export type RateFailure = { reason: string; at: number };

/** A reason of a median has those of all its sources. */
const REASON_CHARS_MAX = 500;

/** The failure of a read that began at `at`. The reason is for every operator, so no source puts a URL or a credential in it. */
export function toRateFailure(reason: string, at: number): RateFailure {
  const isLong = reason.length > REASON_CHARS_MAX;
  return { reason: isLong ? `${cut(reason, REASON_CHARS_MAX - 3)}...` : reason, at };
}

export type SharedValue = {
  /** The last good value, when its read began by Redis' time, and its age. */
  known: { value: string; readAt: number; ageMs: number } | undefined;
  now: number;
  /** Undefined if the last read that ended went well. */
  failure: RateFailure | undefined;
  /** Whether the caller has the lease and reads the source now: one replica in each period, and sooner after a failure. */
  due: boolean;
};

export type SharedRate = ReturnType<typeof createSharedValue>;

/** The rate of a source as all replicas share it, for these tokens. Every call rejects while Redis is away. */
export function createSharedValue(
  partition: Partition,
  token: LiveToken,
  tokens: readonly LiveToken[] = [token],
) {
  const { redis, keys } = partition;
  const key = [keys.rate(identityOf(token))];
  const ofAll = [...key, ...historyKeys(partition, tokens)];
  const refreshMs = token.rate_refresh_secs * 1000;
  const keepMs = refreshMs + token.max_rate_age_secs * 1000;
  const [takeDue, peek] = [script(redis, TAKE_DUE), script(redis, PEEK)];
  const [put, failed] = [script(redis, PUT), script(redis, FAILED)];
  return {
    takeDue: async () => toShared(await takeDue(key, [LEASE_MS, Math.max(LEASE_MS, refreshMs), keepMs])),
    /** Reads the value without taking the lease. */
    peek: async () => toShared(await peek(key, [])),
    /** Sets the value, and keeps it in the history of each token. */
    async put(value: string, readAt: number): Promise<void> {
      await put(ofAll, [readAt, refreshMs, keepMs, value]);
    },
    /** Records why the read that began at `readAt` failed: the next one is due soon, for any replica. */
    async failed(readAt: number, why: string): Promise<void> {
      const { reason } = toRateFailure(why, readAt);
      await failed(key, [readAt, refreshMs, keepMs, RETRY_MS, reason]);
    },
  };
}

function toShared(reply: unknown): SharedValue {
  const [value, readAt, now, due, reason, failedAt] = reply as [
    ...[string, number, number, number],
    ...[string, number],
  ];
  const known = value === "" ? undefined : { value, readAt, ageMs: Math.max(0, now - readAt) };
  const failure = reason === "" ? undefined : { reason, at: failedAt };
  return { known, now, failure, due: due === 1 };
}

/**
 * Names what replicas and tokens must have in common to share a rate: source, bounds and times. URLs and headers count as
 * a whole, because any part of them may change the answer. Replicas with an old and a new credential share nothing, nor do
 * those that write another version.
 */
export function identityOf(token: RatedToken): string {
  const { rate_per_native_unit, min_rate, max_rate, rate_refresh_secs, max_rate_age_secs } = token;
  const settings = { rate_per_native_unit, min_rate, max_rate, rate_refresh_secs, max_rate_age_secs };
  return sha256Hex(Buffer.from(JSON.stringify([VERSIONS.rate, plain(settings)]))).slice(0, 32);
}

/** The settings with their keys sorted, and with the SHA-256 of each secret in its place. */
function plain(value: unknown): unknown {
  if (value instanceof Secret) return sha256Hex(Buffer.from(value.reveal()));
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return entries.map(([name, inner]) => [name, plain(inner)]);
}
