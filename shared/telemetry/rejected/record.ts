import { addressKey } from "../../http/ip/address.ts";
import { BoundedMap } from "../../platform/lifecycle/bounded-map.ts";
import { type Clock, systemClock } from "../../platform/time/clock.ts";
import { defineScript } from "../../redis/define-script.ts";
import type { Partition } from "../../redis/partition.ts";
import { flag } from "../../redis/reply.ts";
import { type Rejection, toEntry } from "./entry.ts";
import writeLua from "./write.lua";

const WRITE = defineScript({
  source: writeLua,
  keys: "entries, bytes, historyOff",
  args: "path, entry, at, entriesMax, bytesMax, keptMs",
  proof: "expendable",
  reply: flag,
});

export const REJECTED_KEPT = 500;
export const REJECTED_KEPT_MS = 7 * 86_400_000;

/**
 * Maximum size of all entries together. Each endpoint has an equal share of it, and all unknown paths together have
 * one. So a flood of refused requests to one endpoint does not delete the entries of the others.
 */
const BYTES_MAX = 64 * 1024 * 1024;
const SHARE_MAX = 1024 * 1024;

/**
 * Number of refused requests to one path that each gateway process records in a burst. After that the process records
 * only one a second. Otherwise a flood would replace all earlier entries, because only the newest are kept.
 */
const BURST = 50;
const PER_SECOND = 1;

/**
 * A client that floods a path must not hide the refused requests of other clients. So a request above the limit of its
 * path is still recorded, if none from its address to this path was recorded for this long. Such additional records
 * have their own limit, which counts those of all paths together.
 */
const QUIET_MS = 60_000;
const ADDRESSES_MAX = 4096;

const OUTSTANDING_MAX = 32;

/**
 * Records a refused request from this client address, unless there were too many. `endpoint` is undefined if no
 * endpoint has the path. The write to Redis continues in the background, and a failed write is ignored. Returns how
 * many requests the entry represents: this one, and the requests to its path that were omitted just before. If this
 * request is omitted, returns undefined and does not call `describe`.
 */
export type RecordRejected = (
  endpoint: string | undefined,
  address: string,
  describe: () => Omit<Rejection, "address">,
) => number | undefined;

type Options = {
  partition: Partition;
  /** Number of endpoints. Each gets an equal share of `BYTES_MAX`. */
  endpoints: number;
  clock?: Clock;
};

/**
 * Creates the function that records refused requests in Redis, where operators read them (list.ts). Redis keeps the
 * newest requests to each endpoint, and the newest to all unknown paths together. Some requests are omitted during a
 * flood, and all while Redis is away or nearly full. The next entry says how many.
 */
export function createRecordRejected({ partition, endpoints, clock = systemClock }: Options): RecordRejected {
  const { redis, keys } = partition;
  const write = WRITE.on(redis);
  const share = Math.min(SHARE_MAX, Math.floor(BYTES_MAX / (endpoints + 1)));
  const samples = new Map<string, Sample>();
  const beyond: Tokens = { left: BURST, filledAt: clock() };
  const recent = createRecent();
  let outstanding = 0;

  async function add(path: string, rejection: Rejection, at: number, sample: Sample): Promise<boolean> {
    const missed = sample.missed;
    sample.missed = 0;
    const isWritten = await put(path, rejection, at, missed).catch(() => false);
    if (!isWritten) sample.missed += missed + 1;
    return isWritten;
  }

  async function put(path: string, rejection: Rejection, at: number, missed: number): Promise<boolean> {
    if (redis.status !== "ready" || outstanding >= OUTSTANDING_MAX) return false;
    outstanding += 1;
    try {
      const entry = JSON.stringify(toEntry(rejection, at, missed));
      return await write(
        { entries: keys.rejected(path), bytes: keys.rejectedBytes, historyOff: keys.historyOff },
        { path, entry, at, entriesMax: REJECTED_KEPT, bytesMax: share, keptMs: REJECTED_KEPT_MS },
      );
    } finally {
      outstanding -= 1;
    }
  }

  return (endpoint, address, describe) => {
    const at = clock();
    const path = endpoint ?? UNKNOWN;
    const from = `${addressKey(address)} ${path}`;
    const sample = samples.get(path) ?? { tokens: { left: BURST, filledAt: at }, leftOut: 0, missed: 0 };
    samples.set(path, sample);
    if (!take(sample.tokens, at) && (recent.has(from, at) || !take(beyond, at))) {
      sample.leftOut += 1;
      sample.missed += 1;
      return undefined;
    }
    recent.add(from, at);
    const counted = sample.leftOut + 1;
    sample.leftOut = 0;
    void add(path, { address, ...describe() }, at, sample).then((isWritten) => {
      if (!isWritten) recent.forget(from);
    });
    return counted;
  };
}

/**
 * Name that replaces the path of requests to paths that no endpoint has. No endpoint can have this path, because it has
 * no slash.
 */
export const UNKNOWN = "unknown";

type Sample = {
  tokens: Tokens;
  /** Number of requests omitted since the process last tried to write an entry. The log of refusals adds them to its counts. */
  leftOut: number;
  /**
   * Number of requests without an entry since the last entry that Redis stored, including those whose write failed. The
   * next entry contains it.
   */
  missed: number;
};

type Tokens = { left: number; filledAt: number };

function take(tokens: Tokens, now: number): boolean {
  const gained = (Math.max(0, now - tokens.filledAt) / 1000) * PER_SECOND;
  tokens.left = Math.min(BURST, tokens.left + gained);
  tokens.filledAt = now;
  if (tokens.left < 1) return false;
  tokens.left -= 1;
  return true;
}

/**
 * Remembers when requests from each address to each path were last recorded. Keeps only the newest `ADDRESSES_MAX`
 * pairs of address and path.
 */
function createRecent() {
  const times = new BoundedMap<string, number>(ADDRESSES_MAX);
  return {
    has: (from: string, now: number) => now - (times.get(from) ?? Number.NEGATIVE_INFINITY) < QUIET_MS,
    forget: (from: string) => void times.delete(from),
    add(from: string, now: number): void {
      times.delete(from);
      times.set(from, now);
    },
  };
}
