import type { z } from "zod";
import { jobKey } from "../call/job-ids.ts";
import { renamedJobs } from "../config/between-files.ts";
import type { CheckedTables } from "../config/checked-tables.ts";
import { type JobPrice, type PriceList, parseJobPricing } from "../config/job-pricing-toml.ts";
import type { PosternToml } from "../config/postern-toml.ts";
import { type PricingToml, pricingToml, tooCheapToQuote } from "../config/pricing-toml.ts";
import type { Problem } from "../config/problem.ts";
import type { Reader } from "../config/read-postern.ts";
import { type Config, readConfig } from "../config/read-webhooks.ts";
import { secretWarnings } from "../config/secret-warnings.ts";
import type { Env } from "../config/secrets.ts";
import { QUOTED_JOB_INDEX_MAX } from "./job-quote.ts";
import { CLOCK_SKEW_SECS, DIFFICULTY_BEARABLE } from "./proof-of-work.ts";

/* Reads the configuration of the pricing engine, and checks the rules between pricing.toml and the prices of jobs. */

const POSTERN = "postern.toml";
const PRICING = "pricing.toml";
const JOB_PRICING = "job_pricing.toml";

export type PricingConfig = Config & {
  /** Undefined if there is no `pricing.toml`. The pricing engine is off then. */
  pricing: PricingToml | undefined;
  /** Every job of job_pricing.toml. */
  jobs: PriceList;
};

/**
 * Reads the files of the pricing engine. `schema` is the schema of `pricing.toml`, which differs a little if the engine runs
 * inside another program.
 */
export function readPricing(
  files: CheckedTables,
  env: Env,
  reader: Reader | undefined,
  schema: z.ZodType<PricingToml> = pricingToml({ env, dir: files.dir }),
): PricingConfig {
  const config = readConfig(files, env, reader);
  const pricing = files.read({ name: PRICING, schema, optional: true });
  const { jobs, read, problems } = parseJobPricing(files.table(JOB_PRICING) ?? {}, files.dir);
  files.report(JOB_PRICING, [...problems, ...(files.has(PRICING) ? unquotablePrices(jobs.values()) : [])]);
  files.reportBetween<[PosternToml]>(JOB_PRICING, [POSTERN], (postern) => renamedJobs(postern, read));

  const { warnings, ...common } = files.checked(config);
  return {
    ...common,
    pricing,
    jobs,
    warnings: [...warnings, ...(pricing === undefined ? [] : pricingWarnings(pricing, jobs))],
  };
}

/** Reports prices that are too low for a quote. */
function unquotablePrices(jobs: Iterable<JobPrice>): Problem[] {
  return [...jobs].flatMap(({ serviceId, jobIndex, priceWei }) => {
    const message = tooCheapToQuote(priceWei);
    return message === undefined ? [] : [{ path: [String(serviceId), String(jobIndex)], message }];
  });
}

/** Returns warnings about settings that are permitted but unwise, one line each. */
function pricingWarnings(pricing: Pick<PricingToml, "pow_difficulty" | "key">, jobs: PriceList): string[] {
  const { pow_difficulty } = pricing;
  const unquotable = [...jobs.values()].filter(({ jobIndex }) => jobIndex > QUOTED_JOB_INDEX_MAX);
  return [
    ...(jobs.size === 0 ? [`${PRICING}: no job has a price in ${JOB_PRICING}, so no job is quoted`] : []),
    ...unquotable.map(
      (job) =>
        `${JOB_PRICING}: job ${jobKey(job)} cannot be quoted: the highest job index of a quote is ${QUOTED_JOB_INDEX_MAX}`,
    ),
    ...(pow_difficulty <= DIFFICULTY_BEARABLE
      ? []
      : [
          `${PRICING}: pow_difficulty: few clients can find ${pow_difficulty} zero bits within ${CLOCK_SKEW_SECS} s`,
        ]),
    ...secretWarnings(PRICING, pricing),
  ];
}
