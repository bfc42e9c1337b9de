import { z } from "zod";
import { cut } from "../../platform/text/cut.ts";

/** States of a runner. If producers see different states of one runner, the state that comes last in this list is shown. */
const STATES = ["unasked", "answers", "failing", "silent", "away"] as const;

/** Health of a runner, as a producer sees it by the answers to its calls. */
export type RunnerHealth = {
  /**
   * `unasked`: no call has been answered or has failed since the producer started. `answers`: the newest call got an
   * answer. `failing`: the newest call got a 5xx without Retry-After. `silent`: the newest call got no answer. `away`:
   * the runner is unreachable, and gets no calls until the producer's probe reaches it.
   */
  state: (typeof STATES)[number];
  /** Name of the runner in the configuration. */
  name: string;
  url: string;
  /** When the runner became failing, silent or away: unix ms, by Redis' clock. */
  since?: number | undefined;
  /** True if the runner has not answered since the producer started. Then the state may have begun before `since`. */
  orEarlier?: boolean | undefined;
  /** Error that the calls got, if the runner is failing, silent or away. */
  reason?: string | undefined;
  /** Time of the last answer: unix ms, by Redis' clock. */
  answeredAt?: number | undefined;
};

/** The runners of a producer. */
export type WatchedRunners = {
  health(): RunnerHealth[];
  /** Calls `listener` each time a runner goes away or returns. */
  onChange(listener: () => void): void;
};

const REASON_MAX = 200;

const Stored = z.array(
  z
    .object({
      state: z.enum(STATES),
      name: z.string(),
      url: z.string(),
      since: z.number().optional(),
      or_earlier: z.boolean().optional(),
      reason: z.string().optional(),
      answered_at: z.number().optional(),
    })
    .transform(
      ({ answered_at: answeredAt, or_earlier: orEarlier, ...rest }): RunnerHealth => ({
        ...rest,
        orEarlier,
        answeredAt,
      }),
    ),
);

/** Encodes runners as JSON, for the record of a process in Redis. */
export function storeRunners(runners: readonly RunnerHealth[]): string {
  return JSON.stringify(
    runners.map(({ answeredAt, orEarlier, reason, ...rest }) => ({
      ...rest,
      or_earlier: orEarlier,
      reason: reason && cut(reason, REASON_MAX),
      answered_at: answeredAt,
    })),
  );
}

/** Parses the output of `storeRunners`. */
export const StoredRunners = z
  .string()
  .transform((text, { addIssue }): unknown => {
    try {
      return JSON.parse(text);
    } catch {
      addIssue("must be JSON");
      return z.NEVER;
    }
  })
  .pipe(Stored);

/** Combined health of a runner in several producers. */
export type RunnerStatus = RunnerHealth & {
  /** Number of producers with this runner in their configuration. */
  producers: number;
  /** Number of these producers for which the runner is silent or away. */
  unanswered: number;
};

/**
 * Combines the reports of several producers into one entry for each runner, by its name and URL. The entry has the
 * worst state that any producer sees, and the earliest `since` of that state.
 */
export function runnersOf(producers: readonly { runners: readonly RunnerHealth[] }[]): RunnerStatus[] {
  const runners = new Map<string, RunnerStatus>();
  for (const one of producers.flatMap((producer) => producer.runners)) {
    const key = JSON.stringify([one.name, one.url]);
    runners.set(key, combine(one, runners.get(key)));
  }
  return [...runners.values()].sort((a, b) => a.name.localeCompare(b.name));
}

function combine(one: RunnerHealth, others: RunnerStatus | undefined): RunnerStatus {
  const isUnanswered = Number(one.state === "silent" || one.state === "away");
  if (others === undefined) return { ...one, producers: 1, unanswered: isUnanswered };
  const isWorse = STATES.indexOf(one.state) > STATES.indexOf(others.state);
  const isEarlier = one.state === others.state && (one.since ?? Infinity) < (others.since ?? Infinity);
  const worst = isWorse || isEarlier ? one : others;
  const answered = Math.max(one.answeredAt ?? 0, others.answeredAt ?? 0);
  return {
    ...worst,
    answeredAt: answered === 0 ? undefined : answered,
    producers: others.producers + 1,
    unanswered: others.unanswered + isUnanswered,
  };
}
