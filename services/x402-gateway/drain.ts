import type { X402Toml } from "../../shared/config/x402-toml.ts";
import { createPaymentList } from "../../shared/payments/list.ts";
import { messageOf } from "../../shared/platform/errors/app-error.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import { CLOCK_CHANGE_MS, type Clock, systemClock } from "../../shared/platform/time/clock.ts";
import { toIso } from "../../shared/platform/time/iso.ts";
import { redisClock } from "../../shared/redis/clock.ts";
import { askAll } from "../../shared/redis/merge.ts";
import type { Partition, Partitions } from "../../shared/redis/partition.ts";
import { confirmed } from "../../shared/redis/prover.ts";

const CHECK_EVERY_MS = 10_000;
/**
 * Lifetime of the drain mark: a key in Redis that makes gateways refuse claims. It outlasts a restart of the draining gateway. Gateways
 * sell again when it expires, a minute after the last draining gateway has ended.
 */
const MARK_MS = 60_000;
/** Maximum time from a claim to the end of its authorization: the largest permitted `payment_window_secs_max`. */
const WINDOW_MS_MAX = 86_400_000;
/** An offer may last this much longer than `quote_ttl_secs`, because all offers made within ten seconds share an expiry. */
const OFFER_ROUNDING_MS = 10_000;

/** State of the drain: whether another deployment with the same `pay_to` may start, and what still prevents it. */
export type DrainState = {
  /** Whether another deployment may start. */
  drained: boolean;
  open_payments: number;
  /** Latest end of the authorizations claimed by this deployment. Null if all have ended. */
  authorizations_until: string | null;
  /** Latest end of the offers. Null if all have ended. */
  offers_until: string | null;
  /** Number of operator quotes and caller proofs that were used in this deployment and have not expired. */
  used_quotes_and_proofs: number;
};

type Deps = {
  partitions: Partitions;
  x402: X402Toml;
  log: Logger;
  /**
   * Replaces the clocks of the process and of Redis in tests. By default, offers end by the clock of Redis. Authorizations end once both
   * clocks say so.
   */
  clock?: Clock;
};

export type Drain = {
  /** The state at the last check. Undefined before the first one. */
  state(): DrainState | undefined;
  stop(): Promise<void>;
};

/**
 * Drains this deployment. Keeps a mark in each partition, so that every gateway of this Redis refuses new claims. Reports when
 * all offers and all used authorizations, operator quotes and caller proofs have expired. From then on, none of them can buy a
 * second time, at another deployment.
 */
export function startDrain(deps: Deps, everyMs = CHECK_EVERY_MS): Drain {
  const { partitions, log } = deps;
  const checks = partitions.map((partition) => {
    const redisTime = deps.clock ?? redisClock(partition.redis).now;
    const check = createReadDrainState(partition, { clock: systemClock, ...deps, redisTime });
    return async () => check(await mark(partition, redisTime()));
  });
  let last: DrainState | undefined;

  async function round(): Promise<void> {
    try {
      const state = toState(await askAll(checks, (check) => check()));
      if (JSON.stringify(state) !== JSON.stringify(last))
        log.info(state.drained ? "drain.done" : "drain.waiting", state);
      last = state;
    } catch (error) {
      last = undefined;
      log.warn("drain.check_failed", { reason: messageOf(error) });
    }
  }

  let rounds = round();
  const timer = setInterval(() => {
    rounds = rounds.then(round);
  }, everyMs);
  return {
    state: () => last,
    async stop() {
      clearInterval(timer);
      await rounds;
    },
  };
}

/**
 * Sets or renews the drain mark, which makes every gateway refuse new claims. Resolves with the time of the first mark (unix ms), once no
 * failover can undo it.
 */
async function mark({ redis, keys }: Partition, now: number): Promise<number> {
  await redis.set(keys.paymentsDrained, now, "PX", MARK_MS, "NX");
  await redis.pexpire(keys.paymentsDrained, MARK_MS);
  const since = Number(await redis.get(keys.paymentsDrained));
  await confirmed(redis);
  return since;
}

/** State of one partition. The times are unix ms, and undefined once they have passed. */
type PartitionDrain = {
  open: number;
  authorizationsUntil: number | undefined;
  offersUntil: number | undefined;
  used: number;
};

function toState(all: readonly PartitionDrain[]): DrainState {
  const sum = (of: (found: PartitionDrain) => number) => all.reduce((total, found) => total + of(found), 0);
  const last = (of: (found: PartitionDrain) => number | undefined) => {
    const ends = all.flatMap((found) => of(found) ?? []);
    return ends.length === 0 ? null : toIso(Math.max(...ends));
  };
  const state = {
    open_payments: sum(({ open }) => open),
    authorizations_until: last(({ authorizationsUntil }) => authorizationsUntil),
    offers_until: last(({ offersUntil }) => offersUntil),
    used_quotes_and_proofs: sum(({ used }) => used),
  };
  const { open_payments: open, used_quotes_and_proofs: used, ...ends } = state;
  return { drained: open === 0 && used === 0 && Object.values(ends).every((end) => end === null), ...state };
}

function createReadDrainState(
  partition: Partition,
  { x402, clock, redisTime }: Pick<Required<Deps>, "x402" | "clock"> & { redisTime: Clock },
) {
  const { redis, keys } = partition;
  const payments = createPaymentList(partition);
  const offersMs = x402.quote_ttl_secs * 1000 + OFFER_ROUNDING_MS + CLOCK_CHANGE_MS;

  /** Returns the end of the last claimed authorization (unix ms). */
  async function lastAuthorization(): Promise<number> {
    let last = 0;
    const since = redisTime() - WINDOW_MS_MAX - CLOCK_CHANGE_MS;
    for await (const { terms } of payments.matching({ since }))
      last = Math.max(last, Number(terms.valid_before) * 1000 + CLOCK_CHANGE_MS);
    return last;
  }

  /** Counts the used operator quotes and caller proofs. Redis forgets each of them once it has expired. */
  async function countUsed(): Promise<number> {
    const found = new Set<string>();
    for (const pattern of [keys.usedQuote("*"), keys.callerNonce("*")]) {
      for await (const batch of redis.scanStream({ match: pattern.replace(/[{}]/g, "?"), count: 1000 }))
        for (const key of batch as string[]) found.add(key);
    }
    return found.size;
  }

  return async function readDrainState(since: number): Promise<PartitionDrain> {
    const [unresolved, inReview, authorizationsUntil, used] = await Promise.all([
      redis.zcard(keys.paymentsUnresolved),
      redis.zcard(keys.paymentsInReview),
      lastAuthorization(),
      countUsed(),
    ]);
    const offersUntil = since + offersMs;
    const authorizationsEnded = Math.min(clock(), redisTime()) >= authorizationsUntil;
    return {
      open: unresolved + inReview,
      authorizationsUntil: authorizationsEnded ? undefined : authorizationsUntil,
      offersUntil: redisTime() >= offersUntil ? undefined : offersUntil,
      used,
    };
  };
}
