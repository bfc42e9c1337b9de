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

const LOOK_EVERY_MS = 10_000;
/** The mark outlives a restart of the draining gateway. A minute after the last one has ended, gateways sell again. */
const MARK_MS = 60_000;
/** Limit on how long an authorization lasts after its claim: the largest `payment_window_secs_max`. */
const WINDOW_MS_MAX = 86_400_000;
/** An offer lasts up to this much longer, since those of ten seconds share an expiry. */
const OFFER_ROUNDING_MS = 10_000;

/** The reasons why another deployment with the same `pay_to` must not start yet. */
export type DrainState = {
  /** Whether another deployment may start. */
  drained: boolean;
  open_payments: number;
  /** When the last authorization that was claimed here has ended; null if all have. */
  authorizations_until: string | null;
  /** When the last offer has ended; null if all have. */
  offers_until: string | null;
  /** Operator quotes and caller proofs that were used here and have not expired. */
  used_quotes_and_proofs: number;
};

type Deps = {
  partitions: Partitions;
  x402: X402Toml;
  log: Logger;
  /** The process' own clock and Redis' by default. Offers end by Redis', authorizations once both say so. */
  clock?: Clock;
};

export type Drain = {
  /** The state at the last look; undefined before the first. */
  state(): DrainState | undefined;
  stop(): Promise<void>;
};

/**
 * Keeps a mark in each partition that refuses the claim of every new payment, at every gateway of this Redis. Tells when all that was offered
 * or used here has expired: from then on no authorization, quote or proof can buy at two deployments.
 */
export function startDrain(deps: Deps, everyMs = LOOK_EVERY_MS): Drain {
  const { partitions, log } = deps;
  const looks = partitions.map((partition) => {
    const redisTime = deps.clock ?? redisClock(partition.redis).now;
    const look = createLookAtDrain(partition, { clock: systemClock, ...deps, redisTime });
    return async () => look(await mark(partition, redisTime()));
  });
  let last: DrainState | undefined;

  async function round(): Promise<void> {
    try {
      const state = toState(await askAll(looks, (look) => look()));
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

/** Sets the mark or renews it. Resolves with when it was set first (unix ms), once no failover can undo it. */
async function mark({ redis, keys }: Partition, now: number): Promise<number> {
  await redis.set(keys.paymentsDrained, now, "PX", MARK_MS, "NX");
  await redis.pexpire(keys.paymentsDrained, MARK_MS);
  const since = Number(await redis.get(keys.paymentsDrained));
  await confirmed(redis);
  return since;
}

/** The state of one partition. The ends are unix ms, and undefined once they have passed. */
type Found = {
  open: number;
  authorizationsUntil: number | undefined;
  offersUntil: number | undefined;
  used: number;
};

function toState(all: readonly Found[]): DrainState {
  const sum = (of: (found: Found) => number) => all.reduce((total, found) => total + of(found), 0);
  const last = (of: (found: Found) => number | undefined) => {
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

function createLookAtDrain(
  partition: Partition,
  { x402, clock, redisTime }: Pick<Required<Deps>, "x402" | "clock"> & { redisTime: Clock },
) {
  const { redis, keys } = partition;
  const payments = createPaymentList(partition);
  const offersMs = x402.quote_ttl_secs * 1000 + OFFER_ROUNDING_MS + CLOCK_CHANGE_MS;

  /** The end of the last authorization among those that were claimed (unix ms). */
  async function lastAuthorization(): Promise<number> {
    let last = 0;
    const since = redisTime() - WINDOW_MS_MAX - CLOCK_CHANGE_MS;
    for await (const { terms } of payments.matching({ since }))
      last = Math.max(last, Number(terms.valid_before) * 1000 + CLOCK_CHANGE_MS);
    return last;
  }

  /** Redis forgets each once the quote or the proof has expired. */
  async function countUsed(): Promise<number> {
    const found = new Set<string>();
    for (const pattern of [keys.usedQuote("*"), keys.callerNonce("*")]) {
      for await (const batch of redis.scanStream({ match: pattern.replace(/[{}]/g, "?"), count: 1000 }))
        for (const key of batch as string[]) found.add(key);
    }
    return found.size;
  }

  return async function lookAtDrain(since: number): Promise<Found> {
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
