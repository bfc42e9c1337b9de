import { z } from "zod";
import { id, isTable } from "../config/fields.ts";
import { type JobPrice, type PriceList, parseJobs } from "../config/job-pricing-toml.ts";
import { type Problem, problem } from "../config/problem.ts";
import { JOB_INDEX_MAX, jobKey } from "../job-call/job-ids.ts";
import type { OptionCheck } from "./option-check.ts";
import { toTable } from "./option-names.ts";

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

const rows = z.array(z.unknown());
const idsOfJob = z.object({ serviceId: id, jobIndex: z.int().min(0).max(JOB_INDEX_MAX) });

/** @internal The jobs by their keys. `problemsOf` finds more, by the paths of `job_pricing.toml`. */
export function readJobs(
  check: OptionCheck,
  jobs: unknown,
  problemsOf: (jobs: Iterable<JobPrice>) => readonly Problem[],
): PriceList | undefined {
  const read = check.read({ schema: rows, table: jobs, placeOf: (path) => ["jobs", ...path] });
  if (read === undefined) return undefined;
  const written = read.flatMap((job, index) => {
    const path = ["jobs", index] as const;
    const ids = check.read({ schema: idsOfJob, table: job, placeOf: (rest) => [...path, ...rest] });
    return isTable(job) ? [{ path, ids, value: toJobTable(job) }] : [];
  });
  const indexes = new Map<string, number>();
  for (const { ids, path } of written) {
    if (ids === undefined) continue;
    const first = indexes.get(jobKey(ids));
    if (first === undefined) indexes.set(jobKey(ids), path[1]);
    else check.report([problem(path, `is the same job as jobs[${first}]`)]);
  }
  const { jobs: prices, problems } = parseJobs(written);
  check.report(problems);
  // What these find wrong with a job as a whole is its price.
  check.report(problemsOf(prices.values()), ([service, job]) => [
    ...["jobs", indexes.get(`${String(service)}/${String(job)}`) ?? 0, "priceWei"],
  ]);
  return prices;
}

/** As a table of `job_pricing.toml`. */
function toJobTable({ serviceId: _, jobIndex: __, ...job }: Readonly<Record<string, unknown>>) {
  const { priceWei } = job;
  return toTable({ ...job, priceWei: typeof priceWei === "bigint" ? String(priceWei) : priceWei });
}
