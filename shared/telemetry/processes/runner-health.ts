import { z } from "zod";
import { cut } from "../../platform/text/cut.ts";

/** The worst comes last. */
const STATES = ["unasked", "answers", "failing", "silent", "away"] as const;

/** What a producer's calls meet at a runner. */
export type RunnerHealth = {
  /**
   * `unasked` has had no call yet. `failing` answered the newest call with a 5xx, and did not ask to wait. `silent` gave the newest
   * call no answer. `away` is sent no call until a probe reaches it.
   */
  state: (typeof STATES)[number];
  /** Its name in the configuration. */
  name: string;
  url: string;
  /** Unix ms, by Redis' clock: since when it is failing, silent or away. */
  since?: number | undefined;
  /** Whether the producer has known nothing else since its start, so that it may have begun before `since`. */
  orEarlier?: boolean | undefined;
  /** What its calls met instead of success. */
  reason?: string | undefined;
  /** Unix ms, by Redis' clock. */
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

/** As it stands in the record of a process. */
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

/** Reads what `storeRunners` wrote. */
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

/** A runner as several producers see it. */
export type RunnerStatus = RunnerHealth & {
  /** How many have it in their configuration. */
  producers: number;
  /** For how many of them it is silent or away. */
  unanswered: number;
};

/** Those of all producers, by name and address, each in the worst state that one of them sees, since the first of these saw it. */
export function runnersOf(producers: readonly { runners: readonly RunnerHealth[] }[]): RunnerStatus[] {
  const runners = new Map<string, RunnerStatus>();
  for (const one of producers.flatMap((producer) => producer.runners)) {
    const key = JSON.stringify([one.name, one.url]);
    runners.set(key, joined(one, runners.get(key)));
  }
  return [...runners.values()].sort((a, b) => a.name.localeCompare(b.name));
}

function joined(one: RunnerHealth, others: RunnerStatus | undefined): RunnerStatus {
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
