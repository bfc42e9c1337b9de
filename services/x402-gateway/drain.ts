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
 * Lifetime of the drain mark, a key in Redis. While it exists, all gateways refuse to claim payments. A draining gateway renews
 * it every `CHECK_EVERY_MS`. A minute is long enough that the mark survives a restart of that gateway. If the last draining
 * gateway ends for good, the mark expires a minute later, and the others sell again.
 */
const MARK_MS = 60_000;
/**
 * Maximum time from the claim of a payment until its authorization expires. It is the largest `payment_window_secs_max` that the
 * configuration accepts.
 */
const WINDOW_MS_MAX = 86_400_000;
/**
 * An offer may last this much longer than `quote_ttl_secs`, because all offers made within the same ten seconds get the same
 * expiry (`SHARED_SECONDS` in offer/offer.ts).
 */
const OFFER_ROUNDING_MS = 10_000;

/** State of the drain. It says whether another deployment with the same `pay_to` may start now, and what still prevents it. */
export type DrainState = {
  /** Whether another deployment may start. */
  drained: boolean;
  open_payments: number;
  /** Time when the last authorization that this deployment has claimed expires. Null if all have expired. */
  authorizations_until: string | null;
  /** Time when the last offer of this deployment expires. Null if all have expired. */
  offers_until: string | null;
  /**
   * Number of operator quotes and caller proofs that bought something here and have not expired. Another deployment does not know
   * that they are used, and would accept them again.
   */
  used_quotes_and_proofs: number;
};

type Deps = {
  partitions: Partitions;
  x402: X402Toml;
  log: Logger;
  /**
   * Replaces the clocks of the process and of Redis in tests. By default, the clock of Redis decides when an offer has expired.
   * An authorization has expired once both clocks are past its end.
   */
  clock?: Clock;
};

export type Drain = {
  /** The state at the last check. Undefined before the first one. */
  state(): DrainState | undefined;
  stop(): Promise<void>;
};

/**
 * Drains this deployment, so that another one can take over its `pay_to`. Keeps a mark in each partition of Redis, which makes
 * every gateway of this deployment refuse new claims. Reports when all offers, and all used authorizations, operator quotes and
 * caller proofs have expired. Before that, one of them could buy a second time at the other deployment, which does not know that
 * it is used.
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
 * Sets or renews the drain mark, which makes every gateway refuse new claims. Resolves with the time when the mark was first set
 * (unix ms). By then the mark is proven: no failover of Redis can lose it.
 */
async function mark({ redis, keys }: Partition, now: number): Promise<number> {
  await redis.set(keys.paymentsDrained, now, "PX", MARK_MS, "NX");
  await redis.pexpire(keys.paymentsDrained, MARK_MS);
  const since = Number(await redis.get(keys.paymentsDrained));
  await confirmed(redis);
  return since;
}

/** State of one partition. Each time is in unix ms, and undefined once it has passed. */
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

  /**
   * Returns the time when the last claimed authorization expires (unix ms), with a margin for a change of the clock. Payments
   * that were claimed longer ago than `WINDOW_MS_MAX` have expired, so they are not read.
   */
  async function lastAuthorization(): Promise<number> {
    let last = 0;
    const since = redisTime() - WINDOW_MS_MAX - CLOCK_CHANGE_MS;
    for await (const { terms } of payments.matching({ since }))
      last = Math.max(last, Number(terms.valid_before) * 1000 + CLOCK_CHANGE_MS);
    return last;
  }

  /**
   * Counts the used operator quotes and caller proofs. Redis has a key for each of them, which it deletes once the quote or proof
   * has expired.
   */
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
