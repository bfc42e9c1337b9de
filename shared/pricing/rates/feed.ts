import { outsideOf } from "../../config/rate-source.ts";
import { messageOf } from "../../errors/app-error.ts";
import type { Logger } from "../../log/logger.ts";
import type { Clock } from "../../time/clock.ts";
import type { Judge } from "./registry.ts";
import { describeSource } from "./registry.ts";
import type { createSharedValue, SharedValue } from "./shared-value.ts";
import type { LiveToken } from "./source.ts";

/** How often what the replicas share is looked at; a replica without a rate looks more often. */
const LOOK_MS = 5000;
const LOOK_AGAIN_MS = 1000;

type Deps = {
  token: LiveToken;
  /** The tokens that have this rate, for the log. */
  names: readonly string[];
  judge: Judge;
  shared: ReturnType<typeof createSharedValue>;
  clock: Clock;
  log: Logger;
};

export type Feed = {
  /** The rate, while it is young enough. */
  current(): string | undefined;
  /** Of the last good value, whether it is young enough or not. */
  ageMs(): number | undefined;
  start(): void;
  /** What is being read is given up. */
  close(): void;
};

/** Keeps one source's rate current in the background. What is away for a while leaves the last good value in force. */
export function createFeed(deps: Deps): Feed {
  const { token, clock } = deps;
  const held = createHeldRate(token, clock);
  const tell = createTeller(deps);
  let timer: NodeJS.Timeout | undefined;
  let open = true;

  async function look(): Promise<void> {
    const askedAt = clock();
    const shared = await deps.shared.takeDue();
    held.adopt(shared, askedAt);
    if (!shared.due) return;
    const { value, reason } = await deps.judge();
    if (!open) return;
    tell.outcome(reason);
    if (value === undefined) return deps.shared.failed(shared.now);
    held.hold(value, { readAt: shared.now, bornAt: askedAt });
    await deps.shared.put(value, shared.now);
  }

  async function next(): Promise<void> {
    await look().then(() => tell.sharing(undefined), tell.sharing);
    tell.availability(held.current());
    const lookMs = held.current() === undefined ? LOOK_AGAIN_MS : LOOK_MS;
    if (open) timer = setTimeout(begin, Math.min(token.rate_refresh_secs * 1000, lookMs));
  }

  function begin(): void {
    void next();
  }

  return {
    current: held.current,
    ageMs: held.ageMs,
    start: () => {
      timer ??= setTimeout(begin, 0);
    },
    close() {
      open = false;
      clearTimeout(timer);
    },
  };
}

/** Says each change once. */
function createTeller({ token, names, log }: Deps) {
  const source = describeSource(token.rate_per_native_unit);
  const reading = createChanges((reason) => log.warn("rate.failed", { source, tokens: names, reason }));
  const sharing = createChanges((reason) => log.warn("rate.failed", { source, tokens: names, reason }));
  let available: boolean | undefined;
  return {
    outcome: reading.is,
    /** What came of asking Redis. */
    sharing(error: unknown): void {
      if (error === undefined) sharing.is(undefined);
      else if (!isAbsence(error)) sharing.is(`the shared rate: ${messageOf(error)}`);
    },
    availability(rate: string | undefined): void {
      const isAvailable = rate !== undefined;
      if (isAvailable === available) return;
      if (isAvailable) log.info("rate.available", { source, tokens: names, rate });
      else if (available)
        log.error("rate.stale", { source, tokens: names, reason: reading.last() ?? sharing.last() });
      available = isAvailable;
    },
  };
}

/** Calls `tell` with each reason that is of another kind than the last. */
function createChanges(tell: (reason: string) => void) {
  let last: string | undefined;
  return {
    last: () => last,
    is(reason: string | undefined): void {
      if (reason !== undefined && kindOf(reason) !== kindOf(last)) tell(reason);
      last = reason;
    },
  };
}

/** Of one reason the numbers change with every look. */
function kindOf(reason: string | undefined): string | undefined {
  return reason?.replace(/\d+/g, "");
}

/** What ioredis rejects with while there is no connection; what Redis itself says is a ReplyError. */
const ABSENCE_NAMES = ["Error", "AbortError", "MaxRetriesPerRequestError"];

/** Redis' absence is told by its connection, and changes nothing here; a refusal, and a mistake of ours, is told. */
function isAbsence(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return ABSENCE_NAMES.includes(error.name) || /^(?:LOADING|MASTERDOWN)\b/.test(error.message);
}

/** `readAt` by Redis' time, `bornAt` by ours: both are when the read of the source began, or earlier. */
type Held = { value: string; readAt: number; bornAt: number };

/** The last good value of a rate, as this process knows it; it counts until it is too old. */
export function createHeldRate(token: LiveToken, clock: Clock) {
  const maxAgeMs = token.max_rate_age_secs * 1000;
  let held: Held | undefined;

  const ageMs = () => held && Math.max(0, clock() - held.bornAt);
  const current = () => ((ageMs() ?? Number.POSITIVE_INFINITY) <= maxAgeMs ? held?.value : undefined);

  return {
    current,
    ageMs,
    hold(value: string, at: Omit<Held, "value">): void {
      held = { value, ...at };
    },
    /** What the replicas share counts, unless Redis has lost a write since. */
    adopt({ known }: SharedValue, askedAt: number): void {
      if (known === undefined || outsideOf(known.value, token) !== undefined) return;
      if (held !== undefined && current() !== undefined && known.readAt < held.readAt) return;
      held = { value: known.value, readAt: known.readAt, bornAt: askedAt - known.ageMs };
    },
  };
}
