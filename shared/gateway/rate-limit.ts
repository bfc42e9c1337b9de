import { RateLimiterRedis, RateLimiterRes } from "rate-limiter-flexible";
import { AppError, messageOf } from "../errors/app-error.ts";
import type { Logger } from "../log/logger.ts";
import type { Redis } from "../redis/connect.ts";
import { defineScript } from "../redis/define-script.ts";
import type { Partition } from "../redis/partition.ts";
import { integer, tuple } from "../redis/reply.ts";
import { type Clock, systemClock, within } from "../time/clock.ts";
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
  clock?: Clock;
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
 */
export function createRateLimits(options: Options): RateLimits {
  const { partition, log, refusals, clock = systemClock, timeoutMs = 250 } = options;
  const { redis, keys } = partition;
  const warn = atMostEvery(UNCHECKED_EVERY_MS, clock, (reason) =>
    log.warn("rate_limit.unchecked", { reason }),
  );

  /** Takes a token of the bucket at this key. Returns after how many milliseconds to come back, if there is none. */
  function createBucket(rate: Rate) {
    const bucket = new Bucket(redis, rate);
    return async (key: string): Promise<number | undefined> => {
      const outcome = await within(timeoutMs, bucket.take(key));
      if (outcome.kind === "done") return outcome.result;
      warn(outcome.kind === "late" ? `no answer within ${timeoutMs} ms` : messageOf(outcome.error));
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

const TAKE = defineScript({
  source: takeTokenLua,
  keys: "bucket",
  args: "one, whole",
  reply: tuple(integer, integer),
});

const MICROS = 1e6;

/** The library looks through all its blocks at each new one, so they are few. Forgetting one costs a round trip. */
const BLOCKS_MAX = 5000;

/** The buckets of one rate, by key. A key without tokens is blocked in this process too until the next one. */
class Bucket {
  readonly #limiter: RateLimiterRedis;
  readonly #oneToken: number;
  #blocks = 0;

  constructor(redis: Redis, { perSecond, burst }: Rate) {
    this.#oneToken = Math.max(1, Math.round(MICROS / perSecond));
    const points = this.#oneToken * burst;
    this.#limiter = new RateLimiterRedis({
      storeClient: clientFor(redis),
      customIncrTtlLuaScript: TAKE.lua,
      keyPrefix: "",
      points,
      duration: 1, // the script tells how long a key lives
      inMemoryBlockOnConsumed: points + 1,
    });
  }

  /** Resolves with the time until there is a token, if there is none. */
  async take(key: string): Promise<number | undefined> {
    try {
      await this.#limiter.consume(key, this.#oneToken);
      return undefined;
    } catch (thrown) {
      if (!(thrown instanceof RateLimiterRes)) throw thrown;
      const isNewBlock = thrown.consumedPoints > 0;
      if (isNewBlock) this.#countBlock();
      return Math.max(1, thrown.msBeforeNext);
    }
  }

  #countBlock(): void {
    this.#blocks += 1;
    if (this.#blocks < BLOCKS_MAX) return;
    this.#blocks = 0;
    this.#limiter.deleteInMemoryBlockedAll();
  }
}

/**
 * A client for one limiter. The library defines its script under one name on the client that it gets. On the connection
 * itself, a limiter of the host's with another script would replace it.
 */
function clientFor(redis: Redis): object {
  const take = TAKE.on(redis);
  return {
    defineCommand(name: string): void {
      const run = ([bucket = "", one, _seconds, whole]: string[]) => take({ bucket }, { one, whole });
      Object.assign(this, { [name]: run });
    },
  };
}

function atMostEvery(ms: number, clock: Clock, work: (reason: string) => void): (reason: string) => void {
  let last = Number.NEGATIVE_INFINITY;
  return (reason) => {
    if (clock() - last < ms) return;
    last = clock();
    work(reason);
  };
}
