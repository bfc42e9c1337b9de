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

/** Maximum size of all entries together. Each path has an equal share, so that no path uses the share of another. */
const BYTES_MAX = 64 * 1024 * 1024;
const SHARE_MAX = 1024 * 1024;

/**
 * Number of requests to a path that each gateway process records in a burst. After that the process records one a second,
 * so that a flood does not remove the earlier entries.
 */
const BURST = 50;
const PER_SECOND = 1;

/**
 * A busy address must not hide the others. A request is therefore recorded even beyond `PER_SECOND` if no request from
 * its address to this path was recorded for this long. One token bucket for all paths limits such additional records.
 */
const QUIET_MS = 60_000;
const ADDRESSES_MAX = 4096;

const OUTSTANDING_MAX = 32;

/**
 * Records a refused request of this client address. `endpoint` is undefined for an unknown path. No request waits for the
 * write, and a failed write is ignored. Returns the number of requests that the entry counts: this one and those omitted
 * before it. If this request is omitted too, returns undefined and does not call `describe`.
 */
export type RecordRejected = (
  endpoint: string | undefined,
  address: string,
  describe: () => Omit<Rejection, "address">,
) => number | undefined;

type Options = {
  partition: Partition;
  /** Number of endpoints, each of which gets an equal share of the storage. */
  endpoints: number;
  clock?: Clock;
};

/**
 * Creates the recorder of refused requests. For operators (list.ts), it keeps the newest ones of each endpoint, and of
 * all unknown paths together. During a flood, and while Redis is away or nearly full, requests are omitted. The next
 * entry counts them.
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

/** Name under which requests to unknown paths are stored. No endpoint can have this path. */
export const UNKNOWN = "unknown";

type Sample = {
  tokens: Tokens;
  /** Number of requests omitted since the last attempt to write an entry. */
  leftOut: number;
  /** Number of requests without an entry since the last entry that Redis stored. */
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

/** Remembers recently recorded pairs of address and path, at most the newest `ADDRESSES_MAX`. */
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
