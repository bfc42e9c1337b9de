import { z } from "zod";
import { whyNoJobKey } from "../call/job-ids.ts";
import { didYouMean } from "../platform/text/similar-words.ts";
import type { Backoff } from "../platform/time/backoff.ts";
import { between, inEach, type Rule, rule } from "./between-keys.ts";
import { attempts, httpUrl, jobName, positive, rateLimit } from "./fields.ts";
import { type Problem, problem } from "./problem.ts";
import { type SecretSource, secretValues } from "./secrets.ts";

/* The tables of postern.toml that name runners, and the settings of single jobs. */

/** Keys that `[runner]` and `[runners.<name>]` share. */
export const runnerFields = (from: SecretSource) => ({
  url: httpUrl,
  secret: secretValues(from).optional(),
  timeout_ms: positive.default(10_000),
});

/** The name of `[runner]`, which runs every job that names no runner. */
export const DEFAULT_RUNNER = "default";

const runnerName = z
  .string()
  .regex(/^[\w-]{1,64}$/, "must be 1 to 64 letters, digits, _ and -")
  .refine((name) => name !== DEFAULT_RUNNER, 'must not be "default", the name of [runner]');

/** Runners besides `[runner]`, by name. */
export const runners = (from: SecretSource) => z.record(runnerName, z.strictObject(runnerFields(from)));

const key = z.string().superRefine((text, context) => {
  const why = whyNoJobKey(text);
  if (why !== undefined) context.addIssue(why);
});

const job = z.strictObject({
  name: jobName.optional(),
  concurrency: positive.optional(),
  rate: rateLimit.optional(),
  attempts: attempts.optional(),
  backoff: z.strictObject({ base_ms: positive.optional(), cap_ms: positive.optional() }).optional(),
  timeout_ms: positive.optional(),
  runner: z.string().optional(),
});

/**
 * Settings of single jobs, by `<service id>/<job index>`. For a setting that is left out, the one for all jobs
 * applies.
 */
export const jobs = z.record(key, job);

/** Wait between two attempts. It begins with `base_ms` and doubles with each attempt, up to `cap_ms`. */
export const backoffTable = (baseMs: number, capMs: number) =>
  z.strictObject({ base_ms: positive.default(baseMs), cap_ms: positive.default(capMs) }).check(
    between(
      rule(({ base_ms, cap_ms }) => base_ms <= cap_ms, {
        path: ["cap_ms"],
        message: "must be at least base_ms",
      }),
    ),
  );

type Job = z.output<typeof job>;
type BackoffTable = { base_ms: number; cap_ms: number };

export function toBackoff({ base_ms, cap_ms }: BackoffTable): Backoff {
  return { baseMs: base_ms, capMs: cap_ms };
}

/** Tables whose values must fit each other. */
export type JobTables = {
  runners: Readonly<Record<string, { timeout_ms: number }>>;
  jobs: Readonly<Record<string, Job>>;
  producer: { lock_ms: number; backoff: BackoffTable };
};

export const OUTLASTS_LOCK = "must be below producer.lock_ms: an attempt must end before its lock expires";

/** Finds values in these tables that do not fit each other. */
export function jobProblems(tables: JobTables): Problem[] {
  return inEach(RULES, (each) => each(tables));
}

const RULES: readonly Rule<JobTables>[] = [
  ({ runners, producer }) =>
    inEach(runners, ({ timeout_ms }, name) =>
      lockProblems(["runners", name, "timeout_ms"], timeout_ms, producer),
    ),
  ({ jobs, producer }) =>
    inEach(jobs, ({ timeout_ms }, key) => lockProblems(["jobs", key, "timeout_ms"], timeout_ms, producer)),
  ({ jobs, producer }) =>
    inEach(jobs, (job, key) => backoffProblems(["jobs", key, "backoff"], job, producer)),
  ({ jobs }) => inEach(jobs, (job, key) => rateProblems(["jobs", key, "rate", "burst"], job)),
  ({ jobs, runners }) =>
    inEach(jobs, (job, key) => runnerProblems(["jobs", key, "runner"], job, Object.keys(runners))),
  unusedRunners,
];

/** Finds runners that no job names. If the runner of a job cannot be read, no runner counts as unused. */
function unusedRunners({ runners, jobs }: JobTables): Problem[] {
  const used = new Set(Object.keys(jobs).map((key) => jobs[key]?.runner));
  return inEach(runners, (_runner, name) =>
    used.has(name) ? [] : [problem(["runners", name], "is not used: no job has this runner")],
  );
}

type Path = readonly string[];

function lockProblems(path: Path, timeoutMs = 0, { lock_ms }: JobTables["producer"]): Problem[] {
  return timeoutMs < lock_ms ? [] : [problem(path, OUTLASTS_LOCK)];
}

function backoffProblems(path: Path, { backoff }: Job, producer: JobTables["producer"]): Problem[] {
  const { base_ms, cap_ms } = merged(backoff, producer.backoff);
  if (backoff === undefined || base_ms <= cap_ms) return [];
  return backoff.cap_ms === undefined
    ? [problem([...path, "base_ms"], `must be at most cap_ms (${cap_ms})`)]
    : [problem([...path, "cap_ms"], `must be at least base_ms (${base_ms})`)];
}

/**
 * Reports a burst below a tenth of `per_second`. The rate becomes one burst in each period of burst / per_second
 * (`toJobs`). A period below 100 ms would be inexact, because periods are in whole ms. For an invalid rate it returns
 * nothing, because the schema reports that.
 */
function rateProblems(path: Path, { rate }: Job): Problem[] {
  if (rate === undefined || !(rate.burst * 10 < rate.perSecond)) return [];
  return [problem(path, `must be at least ${Math.ceil(rate.perSecond / 10)}, a tenth of per_second`)];
}

function runnerProblems(path: Path, { runner }: Job, names: readonly string[]): Problem[] {
  if (runner === undefined || runner === DEFAULT_RUNNER || names.includes(runner)) return [];
  return [problem(path, whyUnknown(runner, names))];
}

function whyUnknown(name: string, names: readonly string[]): string {
  const hint = didYouMean(name, [...names, DEFAULT_RUNNER]);
  return `must be a configured runner, not ${JSON.stringify(name)}${hint}`;
}

function merged(own: Job["backoff"], otherwise: BackoffTable): BackoffTable {
  return { base_ms: own?.base_ms ?? otherwise.base_ms, cap_ms: own?.cap_ms ?? otherwise.cap_ms };
}

/** Settings of a single job, in the form that the queue, the retries and the runners need. */
export type JobSettings = {
  concurrency: number | undefined;
  rate: { max: number; periodMs: number } | undefined;
  attempts: number | undefined;
  backoff: Backoff | undefined;
  timeoutMs: number | undefined;
  runner: string | undefined;
};

/** Returns the settings of each job, by job key. */
export function toJobs({ jobs, producer }: Pick<JobTables, "jobs" | "producer">): Map<string, JobSettings> {
  return new Map(
    Object.entries(jobs).map(([key, { concurrency, rate, attempts, backoff, timeout_ms, runner }]) => {
      const settings = {
        concurrency,
        attempts,
        runner,
        timeoutMs: timeout_ms,
        // One burst is permitted in each period. The period is as long as a burst takes at the average rate.
        rate: rate && { max: rate.burst, periodMs: Math.round((rate.burst * 1000) / rate.perSecond) },
        backoff: backoff && toBackoff(merged(backoff, producer.backoff)),
      };
      return [key, settings];
    }),
  );
}
