import { z } from "zod";
import { callbackHostWarnings } from "../config/callbacks-toml.ts";
import { decimals, markupBps, rate } from "../config/evm-fields.ts";
import { isLoopback } from "../config/fields.ts";
import type { PriceList } from "../config/job-pricing-toml.ts";
import { fixedRateIn } from "../config/rate-source.ts";
import { secretWarnings } from "../config/secret-warnings.ts";
import { withTokenDefaults, type X402Toml } from "../config/x402-toml.ts";
import { jobKey } from "../job-call/job-ids.ts";
import { headWarnings } from "./offer-size.ts";
import { jobsOnSale, type RateAt } from "./prices.ts";

/* What lies between x402.toml and the prices of jobs. */

const X402 = "x402.toml";
const JOB_PRICING = "job_pricing.toml";

const priced = z.object({ decimals, markup_bps: markupBps.default(0) });

/**
 * The fixed rates of the file, and the bounds of the others. It takes the file unchecked, so that a mistake elsewhere in it
 * hides no problem of a price.
 */
export function ratesOf(table: unknown): RateAt[] {
  const tokens = (withTokenDefaults(table ?? {}) as { accepted_tokens?: unknown }).accepted_tokens;
  if (!Array.isArray(tokens)) return [];
  return tokens.flatMap((token: Readonly<Record<string, unknown>>, index) => {
    const read = priced.safeParse(token).data;
    return read === undefined ? [] : ratesIn(token).map((each) => ({ index, ...each, ...read }));
  });
}

function ratesIn(token: Readonly<Record<string, unknown>>) {
  const fixed = fixedRateIn(token["rate_per_native_unit"]);
  if (fixed !== undefined) return [{ rate_per_native_unit: fixed }];
  return (["min_rate", "max_rate"] as const).flatMap((bound) => {
    const text = rate.safeParse(token[bound]).data;
    return text === undefined ? [] : [{ rate_per_native_unit: text, bound }];
  });
}

/** What is allowed and unwise, one line each. `ofClients` is what the official clients will not pay (client-limits.ts). */
export function x402Warnings(x402: X402Toml, prices: PriceList, ofClients: readonly string[] = []): string[] {
  const unpriced = x402.job_policies.filter(
    ({ service_id: serviceId, job_index: jobIndex }) => !prices.has(jobKey({ serviceId, jobIndex })),
  );
  const warnings = [
    ...(isPlainHttp(x402.public_url) ? ["public_url: is http; whoever is on the way can read payments"] : []),
    ...(x402.trust_facilitator
      ? ["trust_facilitator: is on; a facilitator is believed where the chain could be asked"]
      : []),
    ...x402.accepted_tokens.flatMap(unboundedRate),
    ...headWarnings(x402, prices),
    ...ofClients,
    ...noneOnSale(x402, prices),
    ...unpriced.map(
      ({ service_id, job_index }) =>
        `job_policies: job ${job_index} of service ${service_id} has no price in ${JOB_PRICING}`,
    ),
  ];
  return [
    ...warnings.map((warning) => `${X402}: ${warning}`),
    ...secretWarnings(X402, x402),
    ...callbackHostWarnings(X402, x402, [{ path: ["callback_hosts"], hosts: x402.callback_hosts }]),
  ];
}

function noneOnSale(x402: X402Toml, prices: PriceList): string[] {
  if (prices.size === 0) return [`accepted_tokens: no job has a price in ${JOB_PRICING}, so none is sold`];
  if (jobsOnSale(x402, prices).length > 0) return [];
  const key = x402.default_invocation_mode === "disabled" ? "default_invocation_mode" : "job_policies";
  return [`${key}: the policy of each job that has a price is disabled, so none is sold`];
}

type Token = X402Toml["accepted_tokens"][number];

function unboundedRate({ rate_per_native_unit, min_rate, max_rate }: Token, index: number): string[] {
  const missing = [
    ...(min_rate === undefined ? ["min_rate"] : []),
    ...(max_rate === undefined ? ["max_rate"] : []),
  ];
  if (typeof rate_per_native_unit === "string" || missing.length === 0) return [];
  return [
    `accepted_tokens[${index}]: its rate comes from ${rate_per_native_unit.source}, and has no ${missing.join(" and no ")}; a source that is wrong sets any price`,
  ];
}

function isPlainHttp(url: string): boolean {
  return url.startsWith("http:") && !isLoopback(url);
}
