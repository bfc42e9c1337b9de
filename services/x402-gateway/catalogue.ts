import type { AcceptedToken, X402Toml } from "../../shared/config/x402-toml.ts";
import { chainIdOf } from "../../shared/evm/chain-id.ts";
import { domainSeparator } from "../../shared/evm/typed-data.ts";
import { currentOffers } from "../../shared/prices/current-offers.ts";
import { type JobIds, jobKey, type PriceList } from "../../shared/prices/price-list.ts";
import { createPolicies, type JobPolicy } from "./caller-policy.ts";
import type { PlatformQuote } from "./platform-quote.ts";
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

/** A job that has a price. */
export type Job = JobIds & {
  priceWei: bigint;
  policy: JobPolicy;
  prices: readonly { token: Token; amount: bigint }[];
  /** What its price is by, where it is not the price list's. */
  quote?: PlatformQuote;
};

export type Catalogue = {
  tokens: readonly Token[];
  find(ids: JobIds): Job | undefined;
  /** The job at the quote's price. */
  quoted(job: Job, quote: PlatformQuote): Job;
};

/** What is sold, to whom, and for which tokens. */
export function toCatalogue(x402: X402Toml, prices: PriceList<AcceptedToken>): Catalogue {
  const tokens = new Map(x402.accepted_tokens.map((config) => [config, toToken(config)]));
  const policyOf = createPolicies(x402);
  const jobs = [...prices].map(([key, { offers, ...job }]): [string, Job] => {
    const inTokens = offers.flatMap(({ token, amount }) => {
      const known = tokens.get(token);
      return known === undefined ? [] : [{ token: known, amount }];
    });
    return [key, { ...job, policy: policyOf(job), prices: inTokens }];
  });
  const byKey = new Map(jobs);
  return {
    tokens: [...tokens.values()],
    find: (ids) => byKey.get(jobKey(ids)),
    quoted(job, quote) {
      const { priceWei } = quote.quote;
      const offers = currentOffers(priceWei, x402.accepted_tokens, (token) => token.rate_per_native_unit);
      const prices = offers.flatMap(({ token: config, amount }) => {
        const token = tokens.get(config);
        return token === undefined ? [] : [{ token, amount }];
      });
      return { ...job, priceWei, prices, quote };
    },
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
