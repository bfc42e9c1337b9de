import { jobKeyOf } from "../../shared/call/job-ids.ts";
import { DEFAULT_RUNNER } from "../../shared/config/jobs-toml.ts";
import type { Secret } from "../../shared/platform/crypto/secret.ts";
import { AppError, toAppError } from "../../shared/platform/errors/app-error.ts";
import type { Logger } from "../../shared/platform/log/logger.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import type { WatchedRunners } from "../../shared/telemetry/processes/runner-health.ts";
import type { Inject } from "./deliver.ts";
import { createHttpInject } from "./http-runner.ts";
import { outcomeOf, RunnerFailure } from "./retry-policy.ts";
import { createProbe, createRunnerWatch } from "./runner-watch.ts";

export type RunnerOptions = { url: string; secret: Secret | undefined; timeoutMs: number };

export type JobRunner = {
  /** Name of the runner. */
  runner?: string | undefined;
  /** Timeout of an injection of this job, if it differs from the runner's. */
  timeoutMs?: number | undefined;
};

export type Runners = WatchedRunners & {
  inject: Inject;
  /**
   * Returns whether the runner of this job is away. Calls of the job must not be taken then, because their injection would
   * fail at once.
   */
  isAway(job: string): boolean;
  close(): Promise<void>;
};

/** Injects each call into the runner of its job. A runner that is away or slow does not affect the others. */
export function createRunners({
  runners,
  jobs,
  connections,
  resultBytesMax,
  clock,
  log,
}: {
  /** Runners by name. One of them is `default`. */
  runners: Readonly<Record<string, RunnerOptions>>;
  /** Settings by job key, only for jobs that differ from the defaults. */
  jobs: ReadonlyMap<string, JobRunner>;
  /** Number of persistent connections to each runner. */
  connections: number;
  /** Maximum size of an answer that is kept. */
  resultBytesMax: number;
  clock: Clock;
  log: Logger;
}): Runners {
  const timeoutMsOfJob = new Map(
    [...jobs].flatMap(([job, { timeoutMs }]) => (timeoutMs === undefined ? [] : [[job, timeoutMs] as const])),
  );
  const byName = new Map(
    Object.entries(runners).map(([name, { url, ...rest }]) => {
      const http = createHttpInject({ url, ...rest, timeoutMsOfJob, connections, resultBytesMax, clock });
      const watch = createRunnerWatch({ runner: name, url, probe: createProbe(url), clock, log });
      return [name, { name, http, watch }] as const;
    }),
  );
  const named = (name: string) => {
    const runner = byName.get(name);
    if (runner === undefined) throw new Error(`there is no runner "${name}"`);
    return runner;
  };
  const byDefault = named(DEFAULT_RUNNER);
  const byJob = new Map([...jobs].map(([job, { runner = DEFAULT_RUNNER }]) => [job, named(runner)]));
  const runnerOf = (job: string) => byJob.get(job) ?? byDefault;

  const inject: Inject = async (delivered, hold) => {
    const { name, http, watch } = runnerOf(jobKeyOf(delivered.call));
    if (watch.isAway()) throw new AppError("runner.unreachable", { reason: `runner ${name} is down` });
    const since = clock();
    try {
      const answer = await http.inject(delivered, hold);
      watch.answered();
      return answer;
    } catch (thrown) {
      const error = toAppError(thrown);
      const { peer } = outcomeOf(error);
      if (peer === "answered") watch.answered(failureIn(error));
      else if (peer === "unreachable" && !hold.lost) watch.failed(error.message, since);
      else if (!hold.lost) watch.unanswered(error.message, since);
      throw thrown;
    }
  };

  return {
    inject,
    isAway: (job) => runnerOf(job).watch.isAway(),
    onChange(listener) {
      for (const { watch } of byName.values()) watch.onChange(listener);
    },
    health: () => [...byName.values()].map(({ watch }) => watch.health()),
    async close() {
      await Promise.all(
        [...byName.values()].map(({ http, watch }) => {
          watch.close();
          return http.close();
        }),
      );
    },
  };
}

/** Returns the message of an answer that shows a fault of the runner: a 5xx without Retry-After. */
function failureIn(error: AppError): string | undefined {
  if (!(error instanceof RunnerFailure) || error.retryAfterMs !== undefined) return undefined;
  return (error.status ?? 0) >= 500 ? error.message : undefined;
}
