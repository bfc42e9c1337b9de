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

/** Token bucket: holds at most `burst` tokens, is full at first, and gains `perSecond` tokens each second. */
export type Rate = { perSecond: number; burst: number };

/** Path and rates of an endpoint. */
export type LimitedEndpoint = {
  path: string;
  /** Rate for all requests to the endpoint together. */
  rate?: Rate | undefined;
  /** Rate for the requests of each address. */
  ratePerAddress?: Rate | undefined;
};

/**
 * Takes a token for a request whose credential is verified. Throws `request.rate_limited` if the endpoint or the
 * client's address is over its limit.
 */
export type TakeToken = (address: string) => Promise<void>;

export type RateLimits = {
  /** Returns undefined for an endpoint without limits. */
  ofEndpoint(endpoint: LimitedEndpoint): TakeToken | undefined;
  /**
   * Counts a refused credential. Once the address is over its limit, returns the error with which the request is
   * answered instead of the refusal.
   */
  refused(address: string): Promise<AppError | undefined>;
};

type Options = {
  partitions: Partitions;
  log: Logger;
  /** Rate of refused credentials, for each address. */
  refusals: Rate;
  /**
   * Monotonic time in milliseconds. It is not the system clock, because setting that clock back would keep a bucket
   * empty for longer.
   */
  now?: () => number;
  /** Time in ms for which a request waits until Redis has counted it. */
  timeoutMs?: number;
};

/** Returns the Redis key of a bucket. Each partition has keys with its own prefix. */
type KeyOf = (keys: Keys) => string;

/**
 * Creates rate limits that all replicas share. Each limit is a token bucket: in any t seconds it admits at most burst +
 * t * perSecond requests, and a refused request uses no token. An endpoint may have a limit for each address and one
 * for all requests. If an address is over its own limit, its requests use no tokens of the other one.
 *
 * The endpoints' limits count only verified requests. The limit on refusals counts only requests with wrong
 * credentials. If one limit counted both, a stranger could use up the tokens of a sender with the same address, as
 * behind a proxy.
 *
 * The hash of a bucket's key selects the partition of Redis that stores the bucket. If that partition does not answer
 * in time, this process counts the request in a local bucket. So wrong verify tokens are counted even while Redis is
 * away: their handshakes need no Redis, and are answered at any time.
 *
 * If a bucket in Redis is empty, this process remembers it until its next token is due. Until then it refuses requests
 * without asking Redis, so that a flood of them costs Redis nothing.
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

  /**
   * Creates the function that takes a token from a bucket. The created function returns undefined if it got one, and
   * otherwise the milliseconds until the next token.
   */
  function createBucket({ perSecond, burst }: Rate) {
    const one = Math.max(1, Math.round(MICROS / perSecond));
    const cost = { one, whole: one * burst };

    async function take({ takeToken }: Place, bucket: string): Promise<number> {
      const ms = await takeToken({ bucket }, cost);
      if (ms > 0) own.block(bucket, ms, cost);
      return ms;
    }

    return async (keyOf: KeyOf): Promise<number | undefined> => {
      const place = placeOf(keyOf);
      const bucket = keyOf(place.keys);
      const blockedMs = own.msLeft(bucket, cost);
      if (blockedMs > 0) return blockedMs;
      const outcome = await within(timeoutMs, take(place, bucket));
      if (outcome.kind === "done") return outcome.result || undefined;
      warn(
        outcome.kind === "late" ? `Redis did not answer within ${timeoutMs} ms` : messageOf(outcome.error),
      );
      return own.take(bucket, cost) || undefined;
    };
  }

  const takeRefusal = createBucket(refusals);
  return {
    ofEndpoint({ path, rate, ratePerAddress }) {
      if (rate === undefined && ratePerAddress === undefined) return undefined;
      const takeFromAddress = ratePerAddress && createBucket(ratePerAddress);
      const takeFromEndpoint = rate && createBucket(rate);
      return async (address) => {
        const addressMs = await takeFromAddress?.((keys) => keys.limitOfAddress(path, address));
        if (addressMs !== undefined) throw overLimit(`${address} is over rate_limit_per_address`, addressMs);
        const endpointMs = await takeFromEndpoint?.((keys) => keys.limitOfEndpoint(path));
        if (endpointMs !== undefined) throw overLimit("the endpoint is over rate_limit", endpointMs);
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

/**
 * Limit on local buckets. Beyond this number the least recently changed one is deleted. Redis, which has the shared
 * bucket, then decides about the next request.
 */
const OWN_BUCKETS_MAX = 10_000;

/**
 * Arguments of take-token.lua, in microseconds: the time in which the bucket gains one token, and the time in which it
 * fills up.
 */
type Cost = { one: number; whole: number };

/**
 * Creates the local buckets of this process. They record which buckets in Redis are empty, and count requests while
 * Redis does not answer.
 */
function createOwnBuckets(now: () => number) {
  /** Time at which each bucket will be full again, in milliseconds of `now`. */
  const fullAt = new BoundedMap<string, number>(OWN_BUCKETS_MAX);

  function set(bucket: string, ms: number): void {
    fullAt.delete(bucket);
    fullAt.set(bucket, ms);
  }

  /** Returns the milliseconds until the bucket has a token; 0 if it has one. */
  function msLeft(bucket: string, { one, whole }: Cost): number {
    const usedMs = Math.max(0, (fullAt.get(bucket) ?? 0) - now());
    return Math.max(0, Math.ceil(usedMs - (whole - one) / 1000));
  }

  return {
    msLeft,

    /** Records that the bucket gets its next token in `ms` milliseconds. */
    block(bucket: string, ms: number, { one, whole }: Cost): void {
      set(bucket, now() + ms + (whole - one) / 1000);
    },

    /** Takes a token and returns 0. If the bucket is empty, returns the milliseconds until the next one. */
    take(bucket: string, cost: Cost): number {
      const ms = msLeft(bucket, cost);
      if (ms === 0) set(bucket, Math.max(fullAt.get(bucket) ?? 0, now()) + cost.one / 1000);
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
