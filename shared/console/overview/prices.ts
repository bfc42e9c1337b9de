import { z } from "zod";
import { jobKey } from "../../call/job-ids.ts";
import { loadAcceptedTokens } from "../../config/accepted-tokens.ts";
import { openConfigDir } from "../../config/config-dir.ts";
import { isTable } from "../../config/fields.ts";
import { type JobPrice, parseJobPricing } from "../../config/job-pricing-toml.ts";
import type { Env } from "../../config/secrets.ts";
import type { AcceptedToken } from "../../config/x402-toml.ts";
import { toIso } from "../../platform/time/iso.ts";
import { currentOffers } from "../../pricing/prices.ts";
import { createReadRateHistory, type RateSpan } from "../../pricing/rates/history.ts";
import { isLive } from "../../pricing/rates/source.ts";
import type { Partition } from "../../redis/partition.ts";
import { RateView, readRate, toRateView } from "../rates.ts";
import { count, isoTime } from "../view.ts";

const JOB_PRICING = "job_pricing.toml";

/** A job for sale, with its price. `invocation_mode` says which buyers are permitted. */
export const SoldJobView = z
  .object({
    /** `<service id>/<job index>` */
    job: z.string(),
    name: z.string().nullable(),
    description: z.string().nullable(),
    invocation_mode: z.string(),
    /** Price in wei, as a decimal string. */
    price_wei: z.string(),
    /** The price in each token whose rate is known now, in the token's smallest units, as a decimal string. */
    offers: z.array(
      z.object({
        network: z.string(),
        asset: z.string(),
        symbol: z.string(),
        decimals: count,
        amount: z.string(),
      }),
    ),
  })
  .meta({ id: "SoldJob" });
export type SoldJobView = z.infer<typeof SoldJobView>;

/**
 * The rate of a token, now and in the past. All payment gateways that read the rate write to one history in Redis. It
 * keeps the last value of each interval.
 */
const RateWithHistory = RateView.extend({
  /** The rate in past intervals; null if the rate is fixed. */
  history: z
    .object({
      /** Start of the first interval. */
      from: isoTime,
      step_ms: count,
      /**
       * The rate at the end of each interval, oldest first. The last one is the current rate. Null if no rate was
       * recent enough to be used.
       */
      values: z.array(z.string().nullable()),
    })
    .nullable(),
});
type RateWithHistory = z.infer<typeof RateWithHistory>;

/** Rates and prices. Both lists are empty if no job is sold. */
export const PricesView = z.object({
  rates: z.array(RateWithHistory),
  jobs: z.array(SoldJobView),
  /** `public_url` of the payment gateways; null if it is not configured. */
  gateway_url: z.string().nullable(),
});
export type PricesView = z.infer<typeof PricesView>;

export type PricesApi = {
  /**
   * Reads the prices with their history: an hour in steps of a minute, or a day in steps of five minutes. Throws
   * `start.config_invalid` if a file cannot be read, a job is invalid, or the secret of a rate source is missing.
   */
  read(span: RateSpan): Promise<PricesView>;
};

/**
 * Reads the prices. Reads the configuration files each time. So it shows the configuration that a gateway would have
 * if it started now.
 */
export function createPricesApi({
  partition,
  configDir: dir,
  env,
}: {
  partition: Partition;
  configDir: string;
  env: Env;
}): PricesApi {
  const readHistory = createReadRateHistory(partition);

  async function historyOf(token: AcceptedToken, span: RateSpan): Promise<RateWithHistory["history"]> {
    if (!isLive(token)) return null;
    const { from, stepMs, values } = await readHistory(token, span);
    return { from: toIso(from), step_ms: stepMs, values: values.map((value) => value ?? null) };
  }

  return {
    async read(span) {
      const tokens = loadAcceptedTokens({ dir, env }, "rates");
      if (tokens === undefined) return { rates: [], jobs: [], gateway_url: null };
      const [reports, histories] = await Promise.all([
        Promise.all(tokens.map((token) => readRate(partition, token))),
        Promise.all(tokens.map((token) => historyOf(token, span))),
      ]);
      const rateOf = (token: AcceptedToken) => reports[tokens.indexOf(token)]?.value;
      const files = openConfigDir(dir);
      const { jobs, problems } = parseJobPricing(files.table(JOB_PRICING) ?? {}, dir);
      files.report(JOB_PRICING, problems);
      const x402 = files.checked(files.table("x402.toml"));
      const modeOf = modesIn(x402);
      return {
        rates: reports.map((report, i) => ({ ...toRateView(report), history: histories[i] ?? null })),
        jobs: [...jobs.values()].map((job) => toView(job, modeOf(jobKey(job)), tokens, rateOf)),
        gateway_url: isTable(x402) && typeof x402["public_url"] === "string" ? x402["public_url"] : null,
      };
    },
  };
}

function toView(
  job: JobPrice,
  mode: string,
  tokens: readonly AcceptedToken[],
  rateOf: (token: AcceptedToken) => string | undefined,
): SoldJobView {
  const { name = null, description = null, priceWei } = job;
  const offers = currentOffers(priceWei, tokens, rateOf).map(({ token, amount }) => {
    const { network, asset, symbol, decimals } = token;
    return { network, asset, symbol, decimals, amount: String(amount) };
  });
  return { job: jobKey(job), name, description, invocation_mode: mode, price_wei: String(priceWei), offers };
}

/**
 * Returns a function that returns the invocation mode of a job. The mode is not validated here, because no gateway
 * starts with an invalid one.
 */
function modesIn(table: unknown): (job: string) => string {
  const { job_policies: policies, default_invocation_mode: usual }: Readonly<Record<string, unknown>> =
    isTable(table) ? table : {};
  const rows = Array.isArray(policies) ? policies.filter(isTable) : [];
  const modes = new Map(
    rows.map(({ service_id, job_index, invocation_mode }) => [
      `${service_id}/${job_index}`,
      String(invocation_mode),
    ]),
  );
  return (job) => modes.get(job) ?? (typeof usual === "string" ? usual : "public_paid");
}
