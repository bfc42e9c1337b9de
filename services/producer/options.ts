import { z } from "zod";
import type { PosternToml } from "../../shared/config/postern-toml.ts";
import { ORIGINS, type Origin } from "../../shared/job-call/origin.ts";
import { type CommonOptions, type ConsoleOptions, readCommon } from "../../shared/library/common-options.ts";
import { checkOptions, type OptionCheck, tableOf } from "../../shared/library/option-check.ts";
import type { Inject } from "./deliver.ts";

/** The options of `createProducer`. Give `inject`, or `runner`. */
export type ProducerOptions = CommonOptions & {
  /** Takes a call in this process. */
  inject?: Inject;
  /** Takes calls over HTTP (docs/runner.md). */
  runner?: RunnerTarget;
  /** By name: runners beside `runner`, for the jobs that name them. */
  runners?: Readonly<Record<string, RunnerTarget>>;
  /**
   * By `<service id>/<job index>`: what single jobs have instead of the defaults. `concurrency` and `rate` count for all producers
   * together: they are set when this one starts, and those of other jobs are removed. Without `jobs` those that are set stay.
   */
  jobs?: Readonly<Record<string, JobSettingsOptions>>;
  /** How callbacks are sent, which tell of the end of calls (docs/callbacks.md). Without it they wait for another producer. */
  callbacks?: CallbackSettingsOptions;
  /** Which calls it takes. All by default. */
  origins?: readonly Origin[];
  /** Calls injected at once, 100 by default. One job gets at most half of them. */
  concurrency?: number;
  /** Bytes of calls, as they are stored, that are in hand at once. 256 MiB by default. */
  bodyBudgetBytes?: number;
  /** How often a call is tried before it fails. 20 by default. */
  attempts?: number;
  /** Milliseconds between tries: up to `baseMs` (1000 by default), twice that after each, at most `capMs` (900,000). */
  backoff?: { baseMs?: number; capMs?: number };
  /** Milliseconds that a call stays with a producer that died, 20,000 by default. An injection has to end within them. */
  lockMs?: number;
  console?: ConsoleOptions & {
    /** Seconds for which the calls that runners took can be looked for, a day by default; 0 is not at all. */
    historySecs?: number;
    /** How many of these calls; the oldest go first. 500,000 by default. */
    historyMax?: number;
    /** Bytes that they may take together. 64 MiB by default. */
    historyBytesMax?: number;
  };
};

export type CallbackSettingsOptions = {
  /** `whsec_` and base64, or `env:NAME` or `file:/path`. Of several each signs, so that one can be rotated. */
  secret: string | readonly string[];
  /** Addresses and CIDR ranges that are called although they are not public, also without TLS. None by default. */
  allowCidrs?: readonly string[];
  /** Milliseconds for one delivery. 10,000 by default. */
  timeoutMs?: number;
  /** Deliveries to one receiver at once, over all producers. 10 by default. */
  concurrency?: number;
  /** How often a callback is tried before it fails. 24 by default. */
  attempts?: number;
  /** Milliseconds between tries: up to `baseMs` (5000 by default), twice that after each, at most `capMs` (21,600,000). */
  backoff?: { baseMs?: number; capMs?: number };
  /** Bytes of a result that a callback carries; a longer one is left to be asked for. 16,384 by default. */
  resultBytesMax?: number;
};

export type RunnerTarget = {
  /** Calls are posted to `<url>/jobs/<job id>`. */
  url: string;
  /** Signs each request, as `env:NAME`, `file:/path` or text. Without it requests are unsigned. */
  secret?: string | readonly string[];
  /** Milliseconds for one injection. 10,000 by default. */
  timeoutMs?: number;
};

export type JobSettingsOptions = {
  /** Calls of the job that run at once. */
  concurrency?: number;
  /** Calls of the job that begin: so many a second on average, and at once. */
  rate?: { perSecond: number; burst?: number };
  attempts?: number;
  backoff?: { baseMs?: number; capMs?: number };
  timeoutMs?: number;
  /** A name in `runners`. */
  runner?: string;
};

type Read = { postern: PosternToml; inject: Inject | undefined };

/** In place of a runner: how long `inject` takes is its own affair. */
const OF_INJECT = { timeoutMs: 1 };

const NOT_PRODUCER = [
  "redis",
  "log",
  "console",
  "inject",
  "origins",
  "runner",
  "runners",
  "jobs",
  "callbacks",
];

/** @internal The options as a checked configuration. Throws `start.config_invalid`. */
export function readProducerOptions(options: ProducerOptions): Read {
  const check = checkOptions(options);
  const { inject, origins, runner, runners, jobs, callbacks, redis, log, console } = options;
  checkTarget(check, options);
  if (origins !== undefined)
    check.read({
      schema: z.array(z.enum(ORIGINS)).min(1),
      table: origins,
      placeOf: (path) => ["origins", ...path],
    });
  const tables = {
    ...tableOf({ runner: inject === undefined ? runner : OF_INJECT, runners, jobs, callbacks }),
    producer: tableOf(options, NOT_PRODUCER),
  };
  const placeOf = (path: readonly PropertyKey[]) => (path[0] === "producer" ? path.slice(1) : path);
  const common = { ...(redis && { redis }), ...(log && { log }), ...(console && { console }) };
  const postern = readCommon(check, common, "work", { tables, placeOf });
  return check.checked(postern && { postern, inject });
}

/** A call goes to one place: `inject`, or runners. */
function checkTarget(check: OptionCheck, { inject, runner, runners, jobs = {} }: ProducerOptions): void {
  if (inject === undefined && runner === undefined)
    check.reportOption("inject", "is missing: it, or runner, says where calls go");
  // In the file it has a default, which here would hide that it was forgotten.
  if (runner !== undefined && runner?.url === undefined) check.reportOption("runner.url", "is missing");
  if (inject === undefined) return;
  if (typeof inject !== "function") check.reportOption("inject", "must be a function");
  if (runner !== undefined) check.reportOption("runner", "stands beside inject: give one of the two");
  if (runners !== undefined) check.reportOption("runners", "is not used: inject takes every call");
  for (const [key, job] of Object.entries(jobs)) {
    for (const name of ["runner", "timeoutMs"] as const)
      if (job?.[name] !== undefined)
        check.reportOption(`jobs.${key}.${name}`, "is not used: inject takes every call");
  }
}
