import { budgetProblems, NO_CALLBACKS } from "../config/between-files.ts";
import { closedReceiver } from "../config/callbacks-toml.ts";
import { openConfigDir } from "../config/config-dir.ts";
import { type PriceList, parseJobPricing } from "../config/job-pricing-toml.ts";
import { type Config, type LoadOptions, readConfig } from "../config/load-config.ts";
import { type Problem, problem } from "../config/problem.ts";
import { type X402Toml, x402Problems, x402Toml } from "../config/x402-toml.ts";
import { clientWarnings } from "./client-limits.ts";
import { priceProblems } from "./prices.ts";
import { ratesOf, x402Warnings } from "./x402-checks.ts";

const X402 = "x402.toml";
const JOB_PRICING = "job_pricing.toml";

export type X402Config = Config & {
  /** Absent without the file: the gateway is off. */
  x402: X402Toml | undefined;
  /** Every job of job_pricing.toml. */
  prices: PriceList;
};

/** Like `loadConfig`, with the files of the x402 gateway: one error lists the problems of all files. */
export function loadX402Config({ dir, env, reader }: LoadOptions): X402Config {
  const files = openConfigDir(dir);
  const config = readConfig(files, env, reader);
  const x402 = files.read({ name: X402, schema: x402Toml(env), optional: true, problemsIn: x402Problems });
  if (config !== undefined && x402 !== undefined)
    files.report(
      "postern.toml",
      budgetProblems(config.postern, [{ key: X402, bytes: x402.body_limit_bytes }]),
    );
  const { jobs: prices, problems } = parseJobPricing(files.table(JOB_PRICING) ?? {}, dir);
  files.report(JOB_PRICING, [...problems, ...priceProblems(prices.values(), ratesOf(files.table(X402)))]);
  if (config !== undefined && config.postern.callbacks === undefined) {
    if (x402?.callback_hosts !== undefined) files.report(X402, [problem("callback_hosts", NO_CALLBACKS)]);
    files.report(JOB_PRICING, toldJobs(prices));
  }
  const allowCidrs = config?.postern.callbacks?.allow_cidrs;
  if (allowCidrs !== undefined) files.report(JOB_PRICING, closedReceivers(prices, allowCidrs));

  const { warnings, ...common } = files.checked(config);
  return { ...common, x402, prices, warnings: [...warnings, ...(x402 ? warningsOf(x402, prices) : [])] };
}

function closedReceivers(prices: PriceList, allowCidrs: readonly string[]): Problem[] {
  return [...prices.values()].flatMap(({ serviceId, jobIndex, callbackUrl }) => {
    const message = callbackUrl && closedReceiver(callbackUrl, allowCidrs);
    return message ? [problem([String(serviceId), String(jobIndex), "callback_url"], message)] : [];
  });
}

function toldJobs(prices: PriceList): Problem[] {
  return [...prices.values()]
    .filter(({ callbackUrl }) => callbackUrl !== undefined)
    .map(({ serviceId, jobIndex }) =>
      problem([String(serviceId), String(jobIndex), "callback_url"], NO_CALLBACKS),
    );
}

function warningsOf(x402: X402Toml, prices: PriceList): string[] {
  return x402Warnings(x402, prices, clientWarnings(x402, prices));
}
