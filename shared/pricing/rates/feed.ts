import { outsideOf } from "../../config/rate-source.ts";
import { messageOf } from "../../platform/errors/app-error.ts";
import type { Logger } from "../../platform/log/logger.ts";
import type { Clock } from "../../platform/time/clock.ts";
import { failureOf } from "../../redis/failure.ts";
import { describeSource } from "./registry.ts";
import { type RateFailure, type SharedRate, type SharedValue, toRateFailure } from "./shared-value.ts";
import type { LiveToken, RateReader } from "./source.ts";

/** How often a replica looks at the shared value; a replica without a rate looks more often. */
const POLL_MS = 5000;
const POLL_WITHOUT_RATE_MS = 1000;

type Deps = {
  token: LiveToken;
  /** The tokens that have this rate, for the log. */
  names: readonly string[];
  read: RateReader;
  shared: SharedRate;
  clock: Clock;
  log: Logger;
};

export type Feed = {
  /** The rate, while it is young enough. */
  current(): string | undefined;
  /** The age of the last good value, whether it is young enough or not. */
  ageMs(): number | undefined;
  /** Of the last read, by whichever replica; undefined if it went well. */
  failure(): RateFailure | undefined;
  /** Resolves after the first read. */
  start(): Promise<void>;
  /** Ends the feed; the result of a read that is under way is dropped. */
  close(): void;
};

/** Keeps one rate current in the background. While its source or Redis is away, the last good value stays in force. */
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

/** When the read of the source began, or earlier: `readAt` by Redis' time, `bornAt` by ours. */
type ReadTimes = { readAt: number; bornAt: number };

/** The last good value of a rate, as this process knows it; it counts until it is too old. */
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
    /** Takes over the shared value, unless it is older than ours because Redis has lost a write since. */
    adopt({ known }: SharedValue, askedAt: number): void {
      if (known === undefined || outsideOf(known.value, token) !== undefined) return;
      if (held !== undefined && current() !== undefined && known.readAt < held.readAt) return;
      held = { value: known.value, readAt: known.readAt, bornAt: askedAt - known.ageMs };
    },
  };
}

/** Logs each change once. A failed read is told by every replica, so that the log of any of them says why. */
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
    /** The outcome of the last read, by this replica or another one; undefined if it went well. */
    reading(outcome: RateFailure | undefined): void {
      failure = outcome;
      if (readingChanged(outcome?.reason)) failed({ ...told(outcome) });
    },
    /** The outcome of the exchange with Redis; undefined if it worked. */
    sharing(error: unknown): void {
      if (error !== undefined && isAbsence(error)) return;
      unshared = error === undefined ? undefined : `the shared rate: ${messageOf(error)}`;
      if (sharingChanged(unshared)) failed({ reason: unshared });
    },
    availability(rate: string | undefined): void {
      const isAvailable = rate !== undefined;
      if (isAvailable === available) return;
      if (isAvailable) log.info("rate.available", { source, tokens: names, rate });
      else if (available)
        log.error("rate.stale", { source, tokens: names, ...(told(failure) ?? { reason: unshared }) });
      available = isAvailable;
    },
  };
}

function told(failure: RateFailure | undefined) {
  return failure && { reason: failure.reason, failedAt: new Date(failure.at).toISOString() };
}

/** Says of each reason whether there is one, of another kind than the last one. */
function createChanges() {
  let last: string | undefined;
  return (reason: string | undefined): boolean => {
    const isNew = reason !== undefined && kindOf(reason) !== kindOf(last);
    last = reason;
    return isNew;
  };
}

/** A reason without its numbers, which may change with every poll. */
function kindOf(reason: string | undefined): string | undefined {
  return reason?.replace(/\d+/g, "");
}

/** Whether Redis is away: its connection logs that already. Refusals of Redis and mistakes of ours are logged here. */
function isAbsence(error: unknown): boolean {
  const failure = failureOf(error);
  return failure === "unsent" || failure === "lost" || failure === "failover";
}
