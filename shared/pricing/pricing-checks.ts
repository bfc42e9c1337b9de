import type { JobPrice, PriceList } from "../config/job-pricing-toml.ts";
import { type PricingToml, tooCheapToQuote } from "../config/pricing-toml.ts";
import type { Problem } from "../config/problem.ts";
import { secretWarnings } from "../config/secret-warnings.ts";
import { jobKey } from "../job-call/job-ids.ts";
import { QUOTED_JOB_INDEX_MAX } from "./job-quote.ts";
import { CLOCK_SKEW_SECS, DIFFICULTY_BEARABLE } from "./proof-of-work.ts";

/* What lies between pricing.toml and the prices of jobs. */

const PRICING = "pricing.toml";
const JOB_PRICING = "job_pricing.toml";

/** Prices that no quote can have. */
export function tooCheap(jobs: Iterable<JobPrice>): Problem[] {
  return [...jobs].flatMap(({ serviceId, jobIndex, priceWei }) => {
    const message = tooCheapToQuote(priceWei);
    return message === undefined ? [] : [{ path: [String(serviceId), String(jobIndex)], message }];
  });
}

/** What is allowed and unwise, one line each. */
export function pricingWarnings(
  pricing: Pick<PricingToml, "pow_difficulty" | "key">,
  jobs: PriceList,
): string[] {
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
