import type { JobPrice, PriceList } from "../../shared/config/job-pricing-toml.ts";
import type { AcceptedToken, X402Toml } from "../../shared/config/x402-toml.ts";
import { chainIdOf } from "../../shared/ethereum/encoding.ts";
import { domainSeparator } from "../../shared/ethereum/typed-data.ts";
import { type JobIds, jobKey } from "../../shared/job-call/job-ids.ts";
import { currentOffers, type RateOf } from "../../shared/pricing/prices.ts";
import { fixedRateOf } from "../../shared/pricing/rates/sources/fixed.ts";
import type { PlatformQuote } from "./payment/operator-quote.ts";
import { createPolicies, type JobPolicy } from "./policy/caller.ts";
import { v1NetworkOf } from "./v1-networks.ts";

/** A token that is taken, on its chain. */
export type Token = {
  /** CAIP-2. */
  network: string;
  chainId: number;
  /** As configured, which is how offers name it. */
  asset: string;
  symbol: string;
  payTo: string;
  /** EIP-712 domain of the token. */
  name: string;
  version: string;
  /** The domain separator, in hex without 0x. */
  separator: string;
  /** The network's name in version 1 of the protocol, where it has one that all its clients know. */
  v1Network: string | undefined;
};

/** A job that has a price, with what it costs now in each token whose rate is known. */
export type Job = JobIds & {
  priceWei: bigint;
  policy: JobPolicy;
  prices: readonly { token: Token; amount: bigint }[];
  /** What its price is by, where it is not the price list's. */
  quote?: PlatformQuote;
};

export type Catalog = {
  tokens: readonly Token[];
  /** The same object as long as no rate changes, and another one afterwards. */
  find(ids: JobIds): Job | undefined;
  /** The job at the quote's price. */
  quoted(job: Job, quote: PlatformQuote): Job;
};

/** What is sold, to whom, and for which tokens; without `rateOf` only for those whose rate is fixed. */
export function toCatalog(
  x402: X402Toml,
  prices: PriceList,
  rateOf: RateOf<AcceptedToken> = fixedRateOf,
): Catalog {
  const tokens = new Map(x402.accepted_tokens.map((config) => [config, toToken(config)]));
  const policyOf = createPolicies(x402);
  const known = [...prices].map(([key, job]): [string, KnownJob] => [
    key,
    { ...job, policy: policyOf(job), priced: undefined },
  ]);
  const byKey = new Map(known);
  const ratesNow = createRatesNow(x402.accepted_tokens, rateOf);

  function pricesOf(priceWei: bigint, rates: RatesNow): Job["prices"] {
    return currentOffers(priceWei, x402.accepted_tokens, (token) => rates.get(token)).flatMap(
      ({ token: config, amount }) => {
        const token = tokens.get(config);
        return token === undefined ? [] : [{ token, amount }];
      },
    );
  }

  return {
    tokens: [...tokens.values()],
    find(ids) {
      const job = byKey.get(jobKey(ids));
      if (job === undefined) return undefined;
      const rates = ratesNow();
      if (job.priced?.rates === rates) return job.priced.job;
      const { priced: _, ...rest } = job;
      job.priced = { rates, job: { ...rest, prices: pricesOf(job.priceWei, rates) } };
      return job.priced.job;
    },
    quoted(job, quote) {
      const { priceWei } = quote.quote;
      return { ...job, priceWei, prices: pricesOf(priceWei, ratesNow()), quote };
    },
  };
}

type KnownJob = JobPrice & Pick<Job, "policy"> & { priced: { rates: RatesNow; job: Job } | undefined };

type RatesNow = ReadonlyMap<AcceptedToken, string | undefined>;

/** The rates of all tokens; the same object as long as none changes. */
function createRatesNow(tokens: readonly AcceptedToken[], rateOf: RateOf<AcceptedToken>): () => RatesNow {
  const changing = tokens.filter((token) => fixedRateOf(token) === undefined);
  const read = (): RatesNow => new Map(tokens.map((token) => [token, rateOf(token)]));
  let rates = read();
  return () => {
    if (changing.some((token) => rateOf(token) !== rates.get(token))) rates = read();
    return rates;
  };
}

function toToken(config: AcceptedToken): Token {
  const { network, asset, symbol, pay_to: payTo, eip3009_name: name, eip3009_version: version } = config;
  const chainId = chainIdOf(network);
  const separator = domainSeparator({ name, version, chainId, verifyingContract: asset });
  return {
    network,
    chainId,
    asset,
    symbol,
    payTo,
    name,
    version,
    separator,
    v1Network: v1NetworkOf(chainId),
  };
}
