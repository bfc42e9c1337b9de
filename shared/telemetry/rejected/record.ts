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

/** The bytes of all entries together. Each path has an equal share of them, so that none takes another's. */
const BYTES_MAX = 64 * 1024 * 1024;
const SHARE_MAX = 1024 * 1024;

/** Each replica records so many at once for each path, and then one a second, so that a flood leaves what was before it. */
const BURST = 50;
const PER_SECOND = 1;

/**
 * An address of which a path has recorded nothing for so long is recorded beyond that, so that one loud address hides no
 * other. All paths together have one such bucket more, which bounds what many addresses can write.
 */
const QUIET_MS = 60_000;
const ADDRESSES_MAX = 4096;

const OUTSTANDING_MAX = 32;

/**
 * Records a request of this address that the endpoint with this path has refused, or one to an unknown path (undefined):
 * soon and if possible. It never fails, and no request waits for it. Returns for how many requests this one stands, those left
 * out before it and itself; undefined if it is left out, and then `describe` is not called.
 */
export type RecordRejected = (
  endpoint: string | undefined,
  address: string,
  describe: () => Omit<Rejection, "address">,
) => number | undefined;

type Options = {
  partition: Partition;
  /** How many endpoints share the space. */
  endpoints: number;
  clock?: Clock;
};

/**
 * Keeps the last refused requests of each endpoint, and those of all unknown paths together, for the replicas and the
 * operators to read (list.ts). Under a flood, and while Redis is away or nearly full, they are left out, and the next entry says
 * how many.
 */
export function createRecordRejected({ partition, endpoints, clock = systemClock }: Options): RecordRejected {
  const { redis, keys } = partition;
  const write = WRITE.on(redis);
  const share = Math.min(SHARE_MAX, Math.floor(BYTES_MAX / (endpoints + 1)));
  const samples = new Map<string, Sample>();
  const beyond: Tokens = { left: BURST, filledAt: clock() };
  const lately = createLately();
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
    if (!take(sample.tokens, at) && (lately.has(from, at) || !take(beyond, at))) {
      sample.leftOut += 1;
      sample.missed += 1;
      return undefined;
    }
    lately.add(from, at);
    const stands = sample.leftOut + 1;
    sample.leftOut = 0;
    void add(path, { address, ...describe() }, at, sample).then((isWritten) => {
      if (!isWritten) lately.forget(from);
    });
    return stands;
  };
}

/** The place of requests to unknown paths. No endpoint's path is like it. */
export const UNKNOWN = "unknown";

type Sample = {
  tokens: Tokens;
  /** Left out since the last one that was not. */
  leftOut: number;
  /** Without an entry since the last entry. */
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

/** The addresses and paths recorded lately, the newest ones if there are too many. */
function createLately() {
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
