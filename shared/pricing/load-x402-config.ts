import { NO_CALLBACKS, x402BudgetProblems } from "../config/between-files.ts";
import { closedReceiver } from "../config/callbacks-toml.ts";
import { openConfigDir } from "../config/config-dir.ts";
import { isTable } from "../config/fields.ts";
import { type PriceList, parseJobPricing, type ReadJob } from "../config/job-pricing-toml.ts";
import { type Config, type LoadOptions, readConfig } from "../config/load-config.ts";
import type { PosternToml } from "../config/postern-toml.ts";
import { type Problem, problem } from "../config/problem.ts";
import { type X402Toml, x402Problems, x402Toml } from "../config/x402-toml.ts";
import { clientWarnings } from "./client-limits.ts";
import { priceProblems } from "./prices.ts";
import { ratesOf, x402Warnings } from "./x402-checks.ts";

const POSTERN = "postern.toml";
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
  const x402 = files.read({
    name: X402,
    schema: x402Toml({ env, dir }),
    optional: true,
    problemsIn: x402Problems,
  });
  if (files.has(X402))
    files.reportBetween<[PosternToml]>(POSTERN, [POSTERN], (postern) =>
      x402BudgetProblems(postern, files.table(X402), X402),
    );
  const { jobs: prices, read, problems } = parseJobPricing(files.table(JOB_PRICING) ?? {}, dir);
  files.report(JOB_PRICING, [...problems, ...priceProblems(prices.values(), ratesOf(files.table(X402)))]);
  const table = files.table(X402);
  const namesHosts = isTable(table) && table["callback_hosts"] !== undefined;
  files.reportBetween<[PosternToml]>(X402, [POSTERN], ({ callbacks }) =>
    namesHosts && callbacks === undefined ? [problem("callback_hosts", NO_CALLBACKS)] : [],
  );
  files.reportBetween<[PosternToml]>(JOB_PRICING, [POSTERN], ({ callbacks }) => untold(read, callbacks));

  const { warnings, ...common } = files.checked(config);
  return { ...common, x402, prices, warnings: [...warnings, ...(x402 ? warningsOf(x402, prices) : [])] };
}

/** Jobs whose own receiver no producer tells. */
function untold(jobs: readonly ReadJob[], callbacks: PosternToml["callbacks"]): Problem[] {
  return jobs.flatMap(({ path, callbackUrl }) => {
    if (callbackUrl === undefined) return [];
    const message =
      callbacks === undefined ? NO_CALLBACKS : closedReceiver(callbackUrl, callbacks.allow_cidrs);
    return message ? [problem([...path, "callback_url"], message)] : [];
  });
}

function warningsOf(x402: X402Toml, prices: PriceList): string[] {
  return x402Warnings(x402, prices, clientWarnings(x402, prices));
}
