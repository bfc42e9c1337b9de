import { z } from "zod";
import { id } from "../config/fields.ts";
import { type JobPrice, type PriceList, parseJobPricing } from "../config/job-pricing-toml.ts";
import { type Problem, problem } from "../config/problem.ts";
import { JOB_INDEX_MAX, jobKey } from "../job-call/job-ids.ts";
import type { OptionCheck } from "./option-check.ts";

/** A job and its price: an entry of `job_pricing.toml`. */
export type JobOptions = {
  serviceId: number;
  jobIndex: number;
  /** Whole wei: a bigint, or text in decimal. */
  priceWei: bigint | string;
  /** 1 to 32 lower-case letters, digits and hyphens, which no other job has. */
  name?: string;
  /** One line, at most 256 characters. */
  description?: string;
  /** A JSON Schema that the body must fit, and a body that does. */
  inputSchema?: object | boolean;
  inputExample?: unknown;
  /** Whether what the runner answers is kept for the payer. True by default. */
  keepResult?: boolean;
  /** Who is told of the end of each call (docs/callbacks.md), by a producer that sends callbacks. */
  callbackUrl?: string;
};

const ids = z.object({ serviceId: id, jobIndex: z.int().min(0).max(JOB_INDEX_MAX) });
const rows = z.array(z.looseObject(ids.shape));

/** @internal The jobs by their keys. `problemsOf` finds more, by the paths of `job_pricing.toml`. */
export function readJobs(
  check: OptionCheck,
  jobs: unknown,
  problemsOf: (jobs: Iterable<JobPrice>) => readonly Problem[],
): PriceList | undefined {
  const read = check.read({ schema: rows, table: jobs, placeOf: (path) => ["jobs", ...path] });
  if (read === undefined) return undefined;
  const indexes = new Map(read.map((job, index) => [jobKey(job), index] as const).reverse());
  check.report(
    read.flatMap((job, index) => {
      const first = indexes.get(jobKey(job));
      return first === index ? [] : [problem(["jobs", index], `is the same job as jobs[${first}]`)];
    }),
  );
  const { jobs: prices, problems } = parseJobPricing(toTables(read));
  const placeOf = ([service, job, ...rest]: readonly PropertyKey[]) => {
    const index = indexes.get(`${String(service)}/${String(job)}`);
    // What is wrong with a job as a whole is its price.
    return index === undefined ? ["jobs"] : ["jobs", index, ...(rest.length > 0 ? rest : ["priceWei"])];
  };
  check.report([...problems, ...problemsOf(prices.values())], placeOf);
  return prices;
}

/** As the tables of `job_pricing.toml`: by service, then by job. */
function toTables(jobs: z.output<typeof rows>) {
  const tables: Record<string, Record<string, unknown>> = {};
  for (const { serviceId, jobIndex, ...rest } of jobs) {
    const { priceWei, inputSchema, inputExample, keepResult, callbackUrl, ...same } = rest;
    tables[serviceId] ??= {};
    tables[serviceId][jobIndex] = {
      ...same,
      price_wei: typeof priceWei === "bigint" ? String(priceWei) : priceWei,
      ...(inputSchema !== undefined && { input_schema: inputSchema }),
      ...(inputExample !== undefined && { input_example: inputExample }),
      ...(keepResult !== undefined && { keep_result: keepResult }),
      ...(callbackUrl !== undefined && { callback_url: callbackUrl }),
    };
  }
  return tables;
}
