import { z } from "zod";
import { storedBytesOf } from "../call/job-call.ts";
import { jobKey } from "../call/job-ids.ts";
import { NO_CALLBACKS, renamedJobs, x402BudgetProblems } from "../config/between-files.ts";
import { callbackHostWarnings, closedReceiver } from "../config/callbacks-toml.ts";
import type { CheckedTables } from "../config/checked-tables.ts";
import { decimals, markupBps, rate } from "../config/evm-fields.ts";
import { commonBodyLimit, isLoopback, isTable } from "../config/fields.ts";
import { type PriceList, parseJobPricing, type ReadJob } from "../config/job-pricing-toml.ts";
import type { PosternToml } from "../config/postern-toml.ts";
import { type Problem, problem } from "../config/problem.ts";
import { fixedRateIn } from "../config/rate-source.ts";
import type { Reader } from "../config/read-postern.ts";
import { type Config, readConfig } from "../config/read-webhooks.ts";
import { partitionCountOf } from "../config/redis-toml.ts";
import { secretWarnings } from "../config/secret-warnings.ts";
import type { Env } from "../config/secrets.ts";
import { withTokenDefaults, type X402Toml, x402Problems, x402Toml } from "../config/x402-toml.ts";
import { USAGE_BASE_BYTES } from "../payments/scripts.ts";
import { queueBytesMinOf } from "../payments/unsettled.ts";
import { clientWarnings } from "./client-limits.ts";
import { headWarnings } from "./offer-size.ts";
import { jobsOnSale, priceProblems, type RateAt } from "./prices.ts";

/* Reads the configuration of the payment gateway, and checks the rules between x402.toml and the prices of jobs. */

const POSTERN = "postern.toml";
const X402 = "x402.toml";
const JOB_PRICING = "job_pricing.toml";

export type X402Config = Config & {
  /** Undefined if there is no `x402.toml`. The payment gateway is off then. */
  x402: X402Toml | undefined;
  /** Every job of job_pricing.toml. */
  prices: PriceList;
};

/** Reads the files of the payment gateway. */
export function readX402(files: CheckedTables, env: Env, reader: Reader | undefined): X402Config {
  const config = readConfig(files, env, reader);
  const table = files.table(X402);
  const x402 = files.read({
    name: X402,
    schema: x402Toml({ env, dir: files.dir }),
    optional: true,
    problemsIn: x402Problems,
  });
  if (files.has(X402))
    files.reportBetween<[PosternToml]>(POSTERN, [POSTERN], (postern) => [
      ...x402BudgetProblems(postern, table, X402),
      ...unsellableBodies(postern, table),
    ]);
  const { jobs: prices, read, problems } = parseJobPricing(files.table(JOB_PRICING) ?? {}, files.dir);
  files.report(JOB_PRICING, [...problems, ...priceProblems(prices.values(), ratesOf(table))]);
  const namesHosts = isTable(table) && table["callback_hosts"] !== undefined;
  files.reportBetween<[PosternToml]>(X402, [POSTERN], ({ callbacks }) =>
    namesHosts && callbacks === undefined ? [problem("callback_hosts", NO_CALLBACKS)] : [],
  );
  files.reportBetween<[PosternToml]>(JOB_PRICING, [POSTERN], ({ callbacks }) =>
    jobsWithUnsentCallbacks(read, callbacks),
  );
  files.reportBetween<[PosternToml]>(JOB_PRICING, [POSTERN], (postern) => renamedJobs(postern, read));

  const { warnings, ...common } = files.checked(config);
  return { ...common, x402, prices, warnings: [...warnings, ...(x402 ? x402Warnings(x402, prices) : [])] };
}

/**
 * Reports a `queue_bytes_max` that is too low for a payment with the largest body that `body_limit_bytes` permits. One client
 * address may use only a part of each partition's share of these bytes for payments that are not settled yet. The body must fit
 * into that part.
 */
function unsellableBodies({ limits, redis }: PosternToml, x402: unknown): Problem[] {
  const limit = isTable(x402) ? commonBodyLimit.safeParse(x402["body_limit_bytes"]).data : undefined;
  const count = partitionCountOf(redis);
  const least = limit && queueBytesMinOf(storedBytesOf(limit) + USAGE_BASE_BYTES, count);
  if (least === undefined || limits.queue_bytes_max >= least) return [];
  const partition = count === 1 ? "" : ` in one of ${count} partitions`;
  const message = `must be at least ${least}, so that a payment with a body of body_limit_bytes of ${X402} can be accepted${partition}`;
  return [problem(["limits", "queue_bytes_max"], message)];
}

/** Reports the `callback_url` of each job if no producer sends callbacks to that URL. */
function jobsWithUnsentCallbacks(jobs: readonly ReadJob[], callbacks: PosternToml["callbacks"]): Problem[] {
  return jobs.flatMap(({ path, callbackUrl }) => {
    if (callbackUrl === undefined) return [];
    const message =
      callbacks === undefined ? NO_CALLBACKS : closedReceiver(callbackUrl, callbacks.allow_cidrs);
    return message ? [problem([...path, "callback_url"], message)] : [];
  });
}

const priced = z.object({ decimals, markup_bps: markupBps.default(0) });

/**
 * Returns the rates at which prices are checked: each token's fixed rate, or the bounds of its changing rate. Reads them from the
 * unvalidated file, so that a mistake elsewhere in the file does not hide a wrong price.
 */
function ratesOf(table: unknown): RateAt[] {
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

/** Returns warnings about settings that are permitted but unwise, one line each. */
function x402Warnings(x402: X402Toml, prices: PriceList): string[] {
  const unpriced = x402.job_policies.filter(
    ({ service_id: serviceId, job_index: jobIndex }) => !prices.has(jobKey({ serviceId, jobIndex })),
  );
  const warnings = [
    ...(isPlainHttp(x402.public_url)
      ? ["public_url: uses http, so others on the network can read payments"]
      : []),
    ...(x402.trust_facilitator
      ? ["trust_facilitator: is on, so settlements of tokens without rpc_url are not checked on the chain"]
      : []),
    ...x402.accepted_tokens.flatMap(unboundedRate),
    ...headWarnings(x402, prices),
    ...clientWarnings(x402, prices),
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
  if (prices.size === 0) return [`accepted_tokens: no job has a price in ${JOB_PRICING}, so no job is sold`];
  if (jobsOnSale(x402, prices).length > 0) return [];
  const key = x402.default_invocation_mode === "disabled" ? "default_invocation_mode" : "job_policies";
  return [`${key}: every job with a price is disabled, so no job is sold`];
}

type Token = X402Toml["accepted_tokens"][number];

function unboundedRate({ rate_per_native_unit, min_rate, max_rate }: Token, index: number): string[] {
  const missing = [
    ...(min_rate === undefined ? ["min_rate"] : []),
    ...(max_rate === undefined ? ["max_rate"] : []),
  ];
  if (typeof rate_per_native_unit === "string" || missing.length === 0) return [];
  return [
    `accepted_tokens[${index}]: the rate from ${rate_per_native_unit.source} has no ${missing.join(" and no ")}, so a wrong source can set any price`,
  ];
}

function isPlainHttp(url: string): boolean {
  return url.startsWith("http:") && !isLoopback(url);
}
