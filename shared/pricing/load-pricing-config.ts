import { openConfigDir } from "../config/config-dir.ts";
import { type JobPrice, type PriceList, parseJobPricing } from "../config/job-pricing-toml.ts";
import { type Config, type LoadOptions, readConfig } from "../config/load-config.ts";
import { type PricingToml, pricingToml, tooCheapToQuote } from "../config/pricing-toml.ts";
import type { Problem } from "../config/problem.ts";
import { secretWarnings } from "../config/secret-warnings.ts";
import { jobKey } from "../job-call/job-ids.ts";
import { QUOTED_JOB_INDEX_MAX } from "./job-quote.ts";
import { CLOCK_SKEW_SECS, DIFFICULTY_BEARABLE } from "./proof-of-work.ts";

const PRICING = "pricing.toml";
const JOB_PRICING = "job_pricing.toml";

export type PricingConfig = Config & {
  /** Absent without the file: the pricing engine is off. */
  pricing: PricingToml | undefined;
  /** Every job of job_pricing.toml. */
  jobs: PriceList;
};

/** Like `loadConfig`, with the files of the pricing engine: one error lists the problems of all files. */
export function loadPricingConfig({ dir, env, reader }: LoadOptions): PricingConfig {
  const files = openConfigDir(dir);
  const config = readConfig(files, env, reader);
  const pricing = files.read({ name: PRICING, schema: pricingToml(env), optional: true });
  const { jobs, problems } = parseJobPricing(files.table(JOB_PRICING) ?? {}, dir);
  files.report(JOB_PRICING, [...problems, ...(files.has(PRICING) ? tooCheap(jobs.values()) : [])]);

  const { warnings, ...common } = files.checked(config);
  return {
    ...common,
    pricing,
    jobs,
    warnings: [...warnings, ...(pricing === undefined ? [] : warningsOf(pricing, jobs))],
  };
}

function tooCheap(jobs: Iterable<JobPrice>): Problem[] {
  return [...jobs].flatMap(({ serviceId, jobIndex, priceWei }) => {
    const message = tooCheapToQuote(priceWei);
    return message === undefined ? [] : [{ path: [String(serviceId), String(jobIndex)], message }];
  });
}

function warningsOf(pricing: PricingToml, jobs: PriceList): string[] {
  const { pow_difficulty } = pricing;
  const unquotable = [...jobs.values()].filter(({ jobIndex }) => jobIndex > QUOTED_JOB_INDEX_MAX);
  return [
    ...(jobs.size === 0 ? [`${PRICING}: no job has a price in ${JOB_PRICING}, so none is quoted`] : []),
    ...unquotable.map(
      (job) =>
        `${JOB_PRICING}: job ${jobKey(job)} is never quoted: a quote's job index is at most ${QUOTED_JOB_INDEX_MAX}`,
    ),
    ...(pow_difficulty <= DIFFICULTY_BEARABLE
      ? []
      : [
          `${PRICING}: pow_difficulty: few clients find ${pow_difficulty} zero bits in the ${CLOCK_SKEW_SECS} s that they have`,
        ]),
    ...secretWarnings(PRICING, pricing),
  ];
}
