import { callIdFrom } from "../../shared/call/call-id.ts";
import { AppError, messageOf } from "../../shared/platform/errors/app-error.ts";
import { BoundedMap } from "../../shared/platform/lifecycle/bounded-map.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import { within } from "../../shared/platform/time/clock.ts";
import { defineScript } from "../../shared/redis/define-script.ts";
import type { Keys } from "../../shared/redis/keys.ts";
import type { Partitions } from "../../shared/redis/partition.ts";
import { integer } from "../../shared/redis/reply.ts";
import takeTokenLua from "./take-token.lua";

/** A token bucket: it holds `burst` tokens, is full at first, and gets `perSecond` of them a second. */
export type Rate = { perSecond: number; burst: number };

/** An endpoint as its limits see it. */
export type LimitedEndpoint = {
  path: string;
  /** For all requests to the endpoint together. */
  rate?: Rate | undefined;
  /** For the requests of each address. */
  ratePerAddress?: Rate | undefined;
};

/** Counts a request whose credential holds. Throws `request.rate_limited` if it is over a limit of its endpoint. */
export type TakeToken = (address: string) => Promise<void>;

export type RateLimits = {
  /** Undefined for an endpoint without limits. */
  ofEndpoint(endpoint: LimitedEndpoint): TakeToken | undefined;
  /** Counts a refused credential. Returns the error to answer with instead, once the address is over its limit. */
  refused(address: string): Promise<AppError | undefined>;
};

type Options = {
  partitions: Partitions;
  log: Logger;
  /** The limit of refused credentials, for each address. */
  refusals: Rate;
  /** Milliseconds since any instant. They never go back, so that a change of the clock prolongs no block. */
  now?: () => number;
  /** How long a request waits for Redis to count it. */
  timeoutMs?: number;
};

/** The key of a bucket, among the keys of its partition. */
type KeyOf = (keys: Keys) => string;

/**
 * Limits that all replicas share. Each is a real token bucket: in any t seconds it lets at most burst + t * perSecond requests
 * through, and one that is refused uses no token. An address over its own limit uses none of its endpoint's tokens.
 *
 * The limits of endpoints count only requests whose credential holds, and the limit of refusals only those whose credential
 * does not: otherwise a stranger could use up the tokens of addresses that he shares with a sender.
 *
 * The hash of a bucket's key says in which partition the bucket is. If that does not answer in time, this process counts the request
 * in a bucket of its own. Credentials are also checked while no call is accepted: a handshake needs no Redis.
 *
 * A bucket without tokens is blocked in this process until its next one, so that a flood of refused requests costs Redis nothing.
 */
export function createRateLimits(options: Options): RateLimits {
  const { partitions, log, refusals, now = () => performance.now(), timeoutMs = 250 } = options;
  const places = partitions.map(({ redis, keys }) => ({ keys, takeToken: TAKE.on(redis) }));
  type Place = typeof places.control;
  const own = createOwnBuckets(now);
  const warn = atMostEvery(UNSHARED_EVERY_MS, now, (reason) => log.warn("rate_limit.unshared", { reason }));

  function placeOf(keyOf: KeyOf): Place {
    const { all, control } = places;
    return all.length === 1 ? control : places.of(callIdFrom(keyOf(control.keys)));
  }

  /** Takes a token of a bucket. Returns after how many milliseconds to come back, if there is none. */
  function createBucket({ perSecond, burst }: Rate) {
    const one = Math.max(1, Math.round(MICROS / perSecond));
    const words = { one, whole: one * burst };

    async function take({ takeToken }: Place, bucket: string): Promise<number> {
      const ms = await takeToken({ bucket }, words);
      if (ms > 0) own.block(bucket, ms, words);
      return ms;
    }

    return async (keyOf: KeyOf): Promise<number | undefined> => {
      const place = placeOf(keyOf);
      const bucket = keyOf(place.keys);
      const blockedMs = own.msLeft(bucket, words);
      if (blockedMs > 0) return blockedMs;
      const outcome = await within(timeoutMs, take(place, bucket));
      if (outcome.kind === "done") return outcome.result || undefined;
      warn(
        outcome.kind === "late" ? `Redis did not answer within ${timeoutMs} ms` : messageOf(outcome.error),
      );
      return own.take(bucket, words) || undefined;
    };
  }

  const takeRefusal = createBucket(refusals);
  return {
    ofEndpoint({ path, rate, ratePerAddress }) {
      if (rate === undefined && ratePerAddress === undefined) return undefined;
      const takeOfAddress = ratePerAddress && createBucket(ratePerAddress);
      const takeOfAll = rate && createBucket(rate);
      return async (address) => {
        const ofAddressMs = await takeOfAddress?.((keys) => keys.limitOfAddress(path, address));
        if (ofAddressMs !== undefined)
          throw overLimit(`${address} is over rate_limit_per_address`, ofAddressMs);
        const ofAllMs = await takeOfAll?.((keys) => keys.limitOfEndpoint(path));
        if (ofAllMs !== undefined) throw overLimit("the endpoint is over rate_limit", ofAllMs);
      };
    },

    async refused(address) {
      const ms = await takeRefusal((keys) => keys.limitOfRefusals(address));
      if (ms === undefined) return undefined;
      const publicDetail = "too many wrong credentials from this address";
      return overLimit(`${address} is over refusals_per_minute`, ms, publicDetail);
    },
  };
}

const UNSHARED_EVERY_MS = 10_000;

function overLimit(reason: string, retryAfterMs: number, publicDetail?: string): AppError {
  return new AppError("request.rate_limited", {
    reason,
    retryAfterMs,
    ...(publicDetail !== undefined && { publicDetail }),
  });
}

const MICROS = 1e6;

const TAKE = defineScript({
  source: takeTokenLua,
  keys: "bucket",
  args: "one, whole",
  proof: "expendable",
  reply: integer,
});

/** Beyond this many the one that was changed first goes, and Redis answers the next request of its bucket. */
const OWN_MAX = 10_000;

/** As the script takes them (take-token.lua), in microseconds. */
type Words = { one: number; whole: number };

/** The buckets of this process, by key: one without tokens in Redis, and one that Redis does not answer for. */
function createOwnBuckets(now: () => number) {
  /** When the bucket is full again, in milliseconds of `now`. */
  const fullAt = new BoundedMap<string, number>(OWN_MAX);

  function set(bucket: string, ms: number): void {
    fullAt.delete(bucket);
    fullAt.set(bucket, ms);
  }

  /** In how many milliseconds there is a token; 0 if there is one. */
  function msLeft(bucket: string, { one, whole }: Words): number {
    const usedMs = Math.max(0, (fullAt.get(bucket) ?? 0) - now());
    return Math.max(0, Math.ceil(usedMs - (whole - one) / 1000));
  }

  return {
    msLeft,

    /** There is no token for so many milliseconds. */
    block(bucket: string, ms: number, { one, whole }: Words): void {
      set(bucket, now() + ms + (whole - one) / 1000);
    },

    /** Takes a token. Returns in how many milliseconds there is one, and 0 if one was taken. */
    take(bucket: string, words: Words): number {
      const ms = msLeft(bucket, words);
      if (ms === 0) set(bucket, Math.max(fullAt.get(bucket) ?? 0, now()) + words.one / 1000);
      return ms;
    },
  };
}

function atMostEvery(
  ms: number,
  now: () => number,
  work: (reason: string) => void,
): (reason: string) => void {
  let last = Number.NEGATIVE_INFINITY;
  return (reason) => {
    if (now() - last < ms) return;
    last = now();
    work(reason);
  };
}
