import { AppError, messageOf } from "../../shared/platform/errors/app-error.ts";
import { BoundedMap } from "../../shared/platform/lifecycle/bounded-map.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import { within } from "../../shared/platform/time/clock.ts";
import { defineScript } from "../../shared/redis/define-script.ts";
import type { Partition } from "../../shared/redis/partition.ts";
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
  partition: Partition;
  log: Logger;
  /** The limit of refused credentials, for each address. */
  refusals: Rate;
  /** Milliseconds since any instant. They never go back, so that a change of the clock prolongs no block. */
  now?: () => number;
  /** How long a request waits for Redis to count it. */
  timeoutMs?: number;
};

/**
 * Limits that all replicas share. Each is a real token bucket: in any t seconds it lets at most burst + t * perSecond requests
 * through, and one that is refused uses no token. An address over its own limit uses none of its endpoint's tokens.
 *
 * The limits of endpoints count only requests whose credential holds, and the limit of refusals only those whose credential
 * does not: otherwise a stranger could use up the tokens of addresses that he shares with a sender.
 *
 * If Redis does not answer in time, a request counts as within its limits. While Redis is away none is accepted anyway.
 *
 * A bucket without tokens is blocked in this process until its next one, so that a flood of refused requests costs Redis nothing.
 */
export function createRateLimits(options: Options): RateLimits {
  const { partition, log, refusals, now = () => performance.now(), timeoutMs = 250 } = options;
  const { redis, keys } = partition;
  const takeToken = TAKE.on(redis);
  const blocks = createBlocks(now);
  const warn = atMostEvery(UNCHECKED_EVERY_MS, now, (reason) => log.warn("rate_limit.unchecked", { reason }));

  /** Takes a token of the bucket at this key. Returns after how many milliseconds to come back, if there is none. */
  function createBucket({ perSecond, burst }: Rate) {
    const one = Math.max(1, Math.round(MICROS / perSecond));
    const whole = one * burst;

    async function take(bucket: string): Promise<number> {
      const ms = await takeToken({ bucket }, { one, whole });
      if (ms > 0) blocks.add(bucket, ms);
      return ms;
    }

    return async (bucket: string): Promise<number | undefined> => {
      const blockedMs = blocks.msLeft(bucket);
      if (blockedMs > 0) return blockedMs;
      const outcome = await within(timeoutMs, take(bucket));
      if (outcome.kind === "done") return outcome.result || undefined;
      warn(
        outcome.kind === "late" ? `Redis did not answer within ${timeoutMs} ms` : messageOf(outcome.error),
      );
      return undefined;
    };
  }

  const takeRefusal = createBucket(refusals);
  return {
    ofEndpoint({ path, rate, ratePerAddress }) {
      if (rate === undefined && ratePerAddress === undefined) return undefined;
      const takeOfAddress = ratePerAddress && createBucket(ratePerAddress);
      const takeOfAll = rate && createBucket(rate);
      return async (address) => {
        const ofAddressMs = await takeOfAddress?.(keys.limitOfAddress(path, address));
        if (ofAddressMs !== undefined)
          throw overLimit(`${address} is over rate_limit_per_address`, ofAddressMs);
        const ofAllMs = await takeOfAll?.(keys.limitOfEndpoint(path));
        if (ofAllMs !== undefined) throw overLimit("the endpoint is over rate_limit", ofAllMs);
      };
    },

    async refused(address) {
      const ms = await takeRefusal(keys.limitOfRefusals(address));
      if (ms === undefined) return undefined;
      const publicDetail = "too many wrong credentials from this address";
      return overLimit(`${address} is over refusals_per_minute`, ms, publicDetail);
    },
  };
}

const UNCHECKED_EVERY_MS = 10_000;

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

/** Beyond this many the oldest block goes, and Redis answers the next request of its bucket. */
const BLOCKS_MAX = 10_000;

/** Buckets that have no token until a time, by key. */
function createBlocks(now: () => number) {
  const blocks = new BoundedMap<string, number>(BLOCKS_MAX);
  return {
    msLeft: (bucket: string): number => Math.ceil((blocks.get(bucket) ?? 0) - now()),

    add(bucket: string, ms: number): void {
      blocks.delete(bucket);
      blocks.set(bucket, now() + ms);
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
