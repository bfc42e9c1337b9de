import { outsideOf } from "../../config/rate-source.ts";
import { messageOf } from "../../platform/errors/app-error.ts";
import type { Logger } from "../../platform/log/logger.ts";
import type { Clock } from "../../platform/time/clock.ts";
import { failureOf } from "../../redis/failure.ts";
import { describeSource } from "./registry.ts";
import { type RateFailure, type SharedRate, type SharedValue, toRateFailure } from "./shared-value.ts";
import type { LiveToken, RateReader } from "./source.ts";

/** Interval at which a replica reads the rate that all replicas share in Redis. While it knows no rate, it reads more often. */
const POLL_MS = 5000;
const POLL_WITHOUT_RATE_MS = 1000;

type Deps = {
  token: LiveToken;
  /** Names of the tokens that use this rate, for the log. */
  names: readonly string[];
  read: RateReader;
  shared: SharedRate;
  clock: Clock;
  log: Logger;
};

export type Feed = {
  /** Returns the rate. Undefined if no recent enough value is known. */
  current(): string | undefined;
  /** Returns the age of the last value that was read, even if it is too old to be used. Undefined if no value was read yet. */
  ageMs(): number | undefined;
  /** Returns the failure of the last read of the source, by any replica. Undefined if that read succeeded. */
  failure(): RateFailure | undefined;
  /** Resolves after the first read. */
  start(): Promise<void>;
  /** Ends the feed. A read that is in flight has no effect. */
  close(): void;
};

/**
 * Creates a feed, which keeps one rate current in the background. While its source or Redis is unavailable, the last value stays
 * in use until it is too old.
 */
export function createFeed({ token, names, read, shared, clock, log }: Deps): Feed {
  const held = createHeldRate(token, clock);
  const reports = createReports(describeSource(token.rate_per_native_unit), names, log);
  let timer: NodeJS.Timeout | undefined;
  let started: Promise<void> | undefined;
  let open = true;

  async function poll(): Promise<void> {
    const askedAt = clock();
    const found = await shared.takeDue();
    held.adopt(found, askedAt);
    if (!found.due) return reports.reading(found.failure);
    const { value, reason = "the source returned no rate" } = await read();
    if (!open) return;
    reports.reading(value === undefined ? toRateFailure(reason, found.now) : undefined);
    if (value === undefined) return shared.failed(found.now, reason);
    held.hold(value, { readAt: found.now, bornAt: askedAt });
    await shared.put(value, found.now);
  }

  async function next(): Promise<void> {
    await poll().then(() => reports.sharing(undefined), reports.sharing);
    reports.availability(held.current());
    const pollMs = held.current() === undefined ? POLL_WITHOUT_RATE_MS : POLL_MS;
    if (open) timer = setTimeout(begin, Math.min(token.rate_refresh_secs * 1000, pollMs));
  }

  function begin(): void {
    void next();
  }

  return {
    current: held.current,
    ageMs: held.ageMs,
    failure: reports.failure,
    start: () => {
      started ??= next();
      return started;
    },
    close() {
      open = false;
      clearTimeout(timer);
    },
  };
}

/**
 * Times at which the read of a value began. `readAt` is by Redis' clock, for comparisons with other replicas. `bornAt` is by this
 * machine's clock, for the value's age, and may be slightly early.
 */
type ReadTimes = { readAt: number; bornAt: number };

/** Holds the last value of a rate that this process knows. The value is used until it is too old. */
function createHeldRate(token: LiveToken, clock: Clock) {
  const maxAgeMs = token.max_rate_age_secs * 1000;
  let held: ({ value: string } & ReadTimes) | undefined;

  const ageMs = () => held && Math.max(0, clock() - held.bornAt);
  const current = () => ((ageMs() ?? Number.POSITIVE_INFINITY) <= maxAgeMs ? held?.value : undefined);

  return {
    current,
    ageMs,
    hold(value: string, times: ReadTimes): void {
      held = { value, ...times };
    },
    /**
     * Takes over the value that the replicas share in Redis. The held value is kept if it is newer and not too old: its write may
     * have been lost in Redis.
     */
    adopt({ known }: SharedValue, askedAt: number): void {
      if (known === undefined || outsideOf(known.value, token) !== undefined) return;
      if (held !== undefined && current() !== undefined && known.readAt < held.readAt) return;
      held = { value: known.value, readAt: known.readAt, bornAt: askedAt - known.ageMs };
    },
  };
}

/**
 * Creates the functions that log a feed's failures. Each new kind of failure is logged once. It is also logged when the rate
 * becomes available or unavailable. If one replica fails to read the source, every replica logs it, so that each log has the
 * reason.
 */
function createReports(source: string, names: readonly string[], log: Logger) {
  const [readingChanged, sharingChanged] = [createChanges(), createChanges()];
  let failure: RateFailure | undefined;
  let unshared: string | undefined;
  let available: boolean | undefined;

  function failed(fields: object): void {
    log.warn("rate.failed", { source, tokens: names, ...fields });
  }

  return {
    failure: () => failure,
    /** Reports the outcome of the last read by any replica. `outcome` is undefined if the read succeeded. */
    reading(outcome: RateFailure | undefined): void {
      failure = outcome;
      if (readingChanged(outcome?.reason)) failed({ ...withFailure(outcome) });
    },
    /** Reports whether the rate could be read from Redis and written there. `error` is undefined if it could. */
    sharing(error: unknown): void {
      if (error !== undefined && isUnavailable(error)) return;
      unshared = error === undefined ? undefined : `the shared rate: ${messageOf(error)}`;
      if (sharingChanged(unshared)) failed({ reason: unshared });
    },
    availability(rate: string | undefined): void {
      const isAvailable = rate !== undefined;
      if (isAvailable === available) return;
      if (isAvailable) log.info("rate.available", { source, tokens: names, rate });
      else if (available)
        log.error("rate.stale", { source, tokens: names, ...(withFailure(failure) ?? { reason: unshared }) });
      available = isAvailable;
    },
  };
}

function withFailure(failure: RateFailure | undefined) {
  return failure && { reason: failure.reason, failedAt: new Date(failure.at).toISOString() };
}

/** Creates a function that says whether a reason is of another kind than the reason of the previous call. */
function createChanges() {
  let last: string | undefined;
  return (reason: string | undefined): boolean => {
    const isNew = reason !== undefined && kindOf(reason) !== kindOf(last);
    last = reason;
    return isNew;
  };
}

/**
 * Returns a reason without its numbers, which may differ at every poll. Two reasons are of the same kind if only their numbers
 * differ.
 */
function kindOf(reason: string | undefined): string | undefined {
  return reason?.replace(/\d+/g, "");
}

/**
 * Whether an error means that Redis is unavailable. The feed does not log such errors, because the connection to Redis does. It
 * logs all others: errors that Redis answers, and bugs.
 */
function isUnavailable(error: unknown): boolean {
  const failure = failureOf(error);
  return failure === "unsent" || failure === "lost" || failure === "failover";
}
