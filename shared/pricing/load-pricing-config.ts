import { openConfigDir } from "../config/config-dir.ts";
import { type PriceList, parseJobPricing } from "../config/job-pricing-toml.ts";
import { type Config, type LoadOptions, readConfig } from "../config/load-config.ts";
import { type PricingToml, pricingToml } from "../config/pricing-toml.ts";
import { pricingWarnings, tooCheap } from "./pricing-checks.ts";

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
  const pricing = files.read({ name: PRICING, schema: pricingToml({ env, dir }), optional: true });
  const { jobs, problems } = parseJobPricing(files.table(JOB_PRICING) ?? {}, dir);
  files.report(JOB_PRICING, [...problems, ...(files.has(PRICING) ? tooCheap(jobs.values()) : [])]);

  const { warnings, ...common } = files.checked(config);
  return {
    ...common,
    pricing,
    jobs,
    warnings: [...warnings, ...(pricing === undefined ? [] : pricingWarnings(pricing, jobs))],
  };
}
