import { jobKey, type PriceList, priceProblems, toPriceList } from "../prices/price-list.ts";
import type { TokenRate } from "../prices/token-amount.ts";
import { openConfigDir } from "./config-dir.ts";
import { isLoopback } from "./fields.ts";
import { parseJobPricing } from "./job-pricing-toml.ts";
import { type Config, readConfig } from "./load-config.ts";
import type { Env } from "./secret-value.ts";
import { shortSecrets } from "./short-secrets.ts";
import { tokenRate } from "./x402-tokens.ts";
import { type AcceptedToken, withTokenDefaults, type X402Toml, x402Problems, x402Toml } from "./x402-toml.ts";

const X402 = "x402.toml";
const JOB_PRICING = "job_pricing.toml";

export type X402Config = Config & {
  /** Absent without the file: the gateway is off. */
  x402: X402Toml | undefined;
  /** Every job of job_pricing.toml with what it costs in each accepted token. */
  prices: PriceList<AcceptedToken>;
};

/** As `loadConfig`, with the files of the x402 gateway: what is wrong with any file is reported at once. */
export function loadX402Config({ dir, env }: { dir: string; env: Env }): X402Config {
  const files = openConfigDir(dir);
  const config = readConfig(files, env);
  const x402 = files.read({ name: X402, schema: x402Toml(env), optional: true, alsoAsk: x402Problems });
  const { jobs, problems } = parseJobPricing(files.table(JOB_PRICING) ?? {});
  files.report(JOB_PRICING, [...problems, ...priceProblems(jobs.values(), ratesOf(files.table(X402)))]);

  const { warnings, ...common } = files.checked(config);
  const prices = toPriceList(jobs.values(), x402?.accepted_tokens ?? []);
  return { ...common, x402, prices, warnings: [...warnings, ...(x402 ? warningsOf(x402, prices) : [])] };
}

/** The rates that can be read, by the token's index: a mistake elsewhere in the file hides no price's problem. */
function ratesOf(table: unknown): ReadonlyMap<number, TokenRate> {
  const tokens = (withTokenDefaults(table ?? {}) as { accepted_tokens?: unknown }).accepted_tokens;
  const read = Array.isArray(tokens) ? tokens.map((token) => tokenRate.safeParse(token).data) : [];
  return new Map(read.flatMap((rate, index) => (rate === undefined ? [] : [[index, rate]])));
}

function warningsOf(x402: X402Toml, prices: PriceList<AcceptedToken>): string[] {
  const unpriced = x402.job_policies.filter(
    ({ service_id: serviceId, job_index: jobIndex }) => !prices.has(jobKey({ serviceId, jobIndex })),
  );
  const warnings = [
    ...(isPlainHttp(x402.public_url) ? ["public_url: is http; whoever is on the way can read payments"] : []),
    ...(x402.trust_facilitator
      ? ["trust_facilitator: is on; a facilitator is believed where the chain could be asked"]
      : []),
    ...(prices.size === 0 ? [`accepted_tokens: no job has a price in ${JOB_PRICING}, so none is sold`] : []),
    ...unpriced.map(
      ({ service_id, job_index }) =>
        `job_policies: job ${job_index} of service ${service_id} has no price in ${JOB_PRICING}`,
    ),
  ];
  return [...warnings.map((warning) => `${X402}: ${warning}`), ...shortSecrets(X402, x402)];
}

function isPlainHttp(url: string): boolean {
  return url.startsWith("http:") && !isLoopback(url);
}
