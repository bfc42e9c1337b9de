import { type JobIds, jobKey } from "../../../shared/call/job-ids.ts";
import { chainIdOf } from "../../../shared/chain/encoding.ts";
import { type SchemeName, signingTerms } from "../../../shared/chain/payment-schemes.ts";
import type { JobPrice, PriceList } from "../../../shared/config/job-pricing-toml.ts";
import type { AcceptedToken, X402Toml } from "../../../shared/config/x402-toml.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import type { Logger } from "../../../shared/platform/log/logger.ts";
import { currentOffers, type RateOf } from "../../../shared/pricing/prices.ts";
import { isLive } from "../../../shared/pricing/rates/source.ts";
import type { Kinds } from "../facilitator/kinds.ts";
import { createPolicies, type JobPolicy } from "../policy/caller-policy.ts";
import { METHODS } from "../schemes/registry.ts";
import type { AssetTransferMethod } from "../schemes/scheme.ts";
import { V1_NETWORKS } from "../schemes/v1-networks.ts";
import type { OperatorQuote } from "./operator-quote.ts";

/** A token that is taken, on its chain. */
export type Token = {
  /** CAIP-2. */
  network: string;
  chainId: number;
  /** As configured, which is how offers name it. */
  asset: string;
  symbol: string;
  payTo: string;
  scheme: SchemeName;
  method: AssetTransferMethod;
  /** What a client needs to sign, beside our quote: an offer's `extra`. */
  extra: Readonly<Record<string, string>>;
  /** The separator of the EIP-712 domain that payers sign for, in hex without 0x. */
  separator: string;
  /** The network's name in version 1 of the protocol, if it has one that its clients know. */
  v1Network: string | undefined;
  /** Whether it is offered in version 1. */
  v1: boolean;
};

/** A job that has a price, with what it costs now in each token whose rate is known. */
export type Job = JobPrice & {
  policy: JobPolicy;
  /** In each token that some facilitator takes, or may take, in one of the protocol's versions. */
  prices: readonly { token: Token; amount: bigint; versions: Versions }[];
  /** The kinds of those tokens that have a rate, and that no facilitator takes in any version: `exact on eip155:8453`. */
  unsupported: readonly string[];
  /** Where its price comes from, if it is not the price list's. */
  operatorQuote?: OperatorQuote;
};

/** The versions of the protocol in which a token is offered. */
export type Versions = { v1: boolean; v2: boolean };

export type Catalog = {
  tokens: readonly Token[];
  /** Accepted only with offers from before a reload, which are signed. */
  removedTokens: readonly Token[];
  /** The jobs whose policy is not disabled, in the order of the configuration. */
  onSale: readonly JobIds[];
  /** The job, if it has a price: the same object as long as no rate and no kind changes, and another one afterwards. */
  find(ids: JobIds): Job | undefined;
  /** The job, if it is sold. Throws `job.not_found` and `job.disabled`. */
  get(ids: JobIds): Job;
  /** The job at the price of an operator's quote. */
  quoted(job: Job, operatorQuote: OperatorQuote): Job;
};

type Known = {
  rateOf: RateOf<AcceptedToken>;
  isSound: (token: AcceptedToken) => boolean;
  offerable: () => Kinds;
  /** Tokens that are accepted only with earlier offers. */
  removed?: readonly AcceptedToken[];
};

/**
 * What is sold, to whom, and for which tokens. A token that is not sound has no price, nor one of a kind that is not
 * offerable.
 */
export function toCatalog(
  x402: X402Toml,
  prices: PriceList,
  { rateOf, isSound, offerable, removed = [] }: Known,
): Catalog {
  const tokens = new Map(x402.accepted_tokens.map((config) => [config, toToken(config)]));
  const policyOf = createPolicies(x402);
  const listed = [...prices].map(([key, job]): [string, ListedJob] => [
    key,
    { ...job, policy: policyOf(job), cached: undefined },
  ]);
  const byKey = new Map(listed);
  const ratesNow = createRatesNow(x402.accepted_tokens, rateOf, isSound, offerable);

  function pricesOf(priceWei: bigint, { rates, kinds }: RatesNow): Pick<Job, "prices" | "unsupported"> {
    const all = currentOffers(priceWei, x402.accepted_tokens, (token) => rates.get(token)).flatMap(
      ({ token: config, amount }) => {
        const token = tokens.get(config);
        return token === undefined ? [] : [{ token, amount, versions: versionsOf(token, kinds) }];
      },
    );
    const isOffered = ({ versions }: Job["prices"][number]) => versions.v1 || versions.v2;
    const kindOf = ({ token: { scheme, network } }: Job["prices"][number]) => `${scheme} on ${network}`;
    const unsupported = all.filter((price) => !isOffered(price)).map(kindOf);
    return { prices: all.filter(isOffered), unsupported };
  }

  function find(ids: JobIds): Job | undefined {
    const job = byKey.get(jobKey(ids));
    if (job === undefined) return undefined;
    const rates = ratesNow();
    if (job.cached?.rates === rates) return job.cached.job;
    const { cached: _, ...listed } = job;
    job.cached = { rates, job: { ...listed, ...pricesOf(job.priceWei, rates) } };
    return job.cached.job;
  }

  function priced(ids: JobIds): Job {
    const job = find(ids);
    if (job !== undefined) return job;
    throw new AppError("job.not_found", {
      reason: `there is no price for job ${ids.jobIndex} of service ${ids.serviceId}`,
      publicDetail: "job not found",
    });
  }

  function get(ids: JobIds): Job {
    const job = priced(ids);
    if (job.policy.mode === "disabled")
      throw new AppError("job.disabled", { reason: "its policy is disabled" });
    return job;
  }

  return {
    tokens: [...tokens.values()],
    removedTokens: removed.map(toToken),
    onSale: [...byKey.values()].filter(({ policy }) => policy.mode !== "disabled"),
    find,
    get,
    quoted(job, operatorQuote) {
      const { priceWei } = operatorQuote.quote;
      return { ...job, priceWei, ...pricesOf(priceWei, ratesNow()), operatorQuote };
    },
  };
}

/** The catalog of a deployment that is being drained: its tokens are known, and nothing is sold. */
export function toDrained(catalog: Catalog): Catalog {
  return {
    ...catalog,
    onSale: [],
    get() {
      throw soldNoLonger();
    },
  };
}

/** The answer to everybody who would buy while the deployment is drained. */
export function soldNoLonger(): AppError {
  return new AppError("payment.unavailable", {
    reason: "this deployment is draining (postern x402 --drain)",
    publicDetail:
      "This gateway no longer sells jobs. Nothing was charged. Earlier purchases are still answered.",
    retryAfterMs: 60_000,
  });
}

/** A catalog that offers nothing while payments are unaudited. */
export function soldOnceAudited(catalog: Catalog, isUnaudited: () => boolean): Catalog {
  return {
    ...catalog,
    get(ids) {
      if (isUnaudited()) throw soldAfterAudit();
      return catalog.get(ids);
    },
  };
}

/** The answer to everybody who would buy before the audit that follows an adoption of Redis. */
export function soldAfterAudit(): AppError {
  return new AppError("payment.unavailable", {
    reason:
      "payments are unaudited since Redis was adopted: run `postern payments audit` (docs/backup.md#adopt)",
    publicDetail:
      "This gateway does not sell jobs at the moment. Nothing was charged. Earlier purchases are still answered.",
    retryAfterMs: 60_000,
  });
}

/** A job of the price list, and what it cost at the rates that were looked at last. */
type ListedJob = JobPrice & Pick<Job, "policy"> & { cached: { rates: RatesNow; job: Job } | undefined };

/** The rates of all tokens that are sound, and what facilitators take. */
type RatesNow = { rates: ReadonlyMap<AcceptedToken, string | undefined>; kinds: Kinds };

/** What prices are made of; the same object as long as nothing changes. */
function createRatesNow(
  tokens: readonly AcceptedToken[],
  rateOf: RateOf<AcceptedToken>,
  isSound: (token: AcceptedToken) => boolean,
  offerable: () => Kinds,
): () => RatesNow {
  const changing = tokens.filter(isLive);
  const read = (): RatesNow => ({
    rates: new Map(tokens.filter(isSound).map((token) => [token, rateOf(token)])),
    kinds: offerable(),
  });
  let now = read();
  const isOld = ({ rates, kinds }: RatesNow) =>
    kinds !== offerable() ||
    tokens.some((token) => isSound(token) !== rates.has(token)) ||
    changing.some((token) => rates.has(token) && rateOf(token) !== rates.get(token));
  return () => {
    if (isOld(now)) now = read();
    return now;
  };
}

/** The versions in which somebody could settle a payment in this token. */
function versionsOf({ network, v1, v1Network, scheme }: Token, kinds: Kinds): Versions {
  return {
    v1: v1 && v1Network !== undefined && kinds.takes({ x402Version: 1, scheme, network: v1Network }),
    v2: kinds.takes({ x402Version: 2, scheme, network }),
  };
}

/** Logs that no facilitator takes a token any more, so that nothing is offered for it; and that one does again. */
export function createLogTokenKinds(tokens: readonly Token[], log: Logger) {
  const unsupported = new Set<Token>();
  return (offerable: Kinds): void => {
    for (const token of tokens) {
      const { network, asset, symbol } = token;
      const { v1, v2 } = versionsOf(token, offerable);
      const isTaken = v1 || v2;
      if (isTaken === !unsupported.has(token)) continue;
      if (isTaken) unsupported.delete(token);
      else unsupported.add(token);
      if (isTaken) log.info("token.supported", { network, asset, symbol });
      else log.error("token.unsupported", { network, asset, symbol });
    }
  };
}

/** After this long a rate may be known again. */
const RATE_RETRY_MS = 10_000;

/** Throws `price.unavailable` if the job has a price in no token. */
export function assertOffered(job: Job): void {
  const error = noOffer(job);
  if (error !== undefined) throw error;
}

/** The error that `assertOffered` throws, if any. */
export function noOffer({ prices, unsupported, jobIndex, serviceId }: Job): AppError | undefined {
  if (prices.length > 0) return undefined;
  const why =
    unsupported.length > 0
      ? `no facilitator supports the kinds of its tokens (${[...new Set(unsupported)].join(", ")})`
      : "no token has both a current rate and a valid configuration (see token.invalid in the log)";
  return new AppError("price.unavailable", {
    reason: `${why}, for job ${jobIndex} of service ${serviceId}`,
    publicDetail: "No accepted token can be used at the moment. Nothing was charged.",
    retryAfterMs: RATE_RETRY_MS,
  });
}

/** A job's path, which is also what a payment is bound to. */
export function jobPath(ids: JobIds): string {
  return `/x402/jobs/${jobKey(ids)}`;
}

function toToken(config: AcceptedToken): Token {
  const { network, asset, symbol, pay_to: payTo, transfer_method, v1 } = config;
  const chainId = chainIdOf(network);
  const method = METHODS[transfer_method];
  const { scheme, extra } = signingTerms(config);
  const separator = method.separatorOf({ chainId, asset, extra });
  if (separator === undefined) throw new Error(`the domain of ${symbol} on ${network} is incomplete`);
  const v1Network = method.hasV1 ? V1_NETWORKS[chainId] : undefined;
  return { network, chainId, asset, symbol, payTo, scheme, method, v1, extra, separator, v1Network };
}
