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
import type { AssetTransferMethod, GasSponsoring } from "../schemes/scheme.ts";
import { V1_NETWORKS } from "../schemes/v1-networks.ts";
import type { OperatorQuote } from "./operator-quote.ts";

/** An accepted token on its chain. */
export type Token = {
  /** CAIP-2. */
  network: string;
  chainId: number;
  /** Address of the token's contract, spelled as in the configuration. Offers name the token with this spelling. */
  asset: string;
  symbol: string;
  payTo: string;
  scheme: SchemeName;
  method: AssetTransferMethod;
  /**
   * Members of an offer's `extra` that a client needs to sign, such as the token's name and version. In version 2, `extra` also
   * has the gateway's quote.
   */
  extra: Readonly<Record<string, string>>;
  /** Separator of the EIP-712 domain that payers sign for, in hex without 0x. */
  separator: string;
  /** The network's name in version 1 of the protocol, if clients of version 1 know one. */
  v1Network: string | undefined;
  /** Whether the token is offered in version 1. */
  v1: boolean;
};

/** A job with a price, and its current amount in each token whose rate is known. */
export type Job = JobPrice & {
  policy: JobPolicy;
  /**
   * Amount in each token that can be offered in at least one version of the protocol. A token can be offered if a facilitator
   * supports it, or has not reported yet what it supports.
   */
  prices: readonly {
    token: Token;
    amount: bigint;
    versions: Versions;
    gasSponsorings: readonly GasSponsoring[];
  }[];
  /**
   * Kinds of payment, such as `exact on eip155:8453`, that were left out of `prices` because no facilitator supports them in any
   * version of the protocol. A token whose rate is unknown is not listed here either.
   */
  unsupported: readonly string[];
  /** Operator's quote that the price comes from. Undefined if the price comes from the price list. */
  operatorQuote?: OperatorQuote;
};

/** Versions of the protocol in which a token is offered. */
export type Versions = { v1: boolean; v2: boolean };

export type Catalog = {
  tokens: readonly Token[];
  /**
   * Tokens that a reload has removed from the configuration. A payment in one of them is accepted only with a signed offer from
   * before the reload.
   */
  removedTokens: readonly Token[];
  /** Jobs whose policy is not disabled, in the order of the configuration. */
  onSale: readonly JobIds[];
  /**
   * Returns the job, if the price list has it. Returns the same object until a rate or the supported kinds of payment change, so
   * that callers can use it as a cache key.
   */
  find(ids: JobIds): Job | undefined;
  /** Returns a job that is for sale. Throws `job.not_found` and `job.disabled`. */
  get(ids: JobIds): Job;
  /** Returns the job at the price of an operator's quote. */
  quoted(job: Job, operatorQuote: OperatorQuote): Job;
};

type CatalogSources = {
  rateOf: RateOf<AcceptedToken>;
  isTokenValid: (token: AcceptedToken) => boolean;
  offerable: () => Kinds;
  /** Tokens that are accepted only with offers from before a reload. */
  removed?: readonly AcceptedToken[];
};

/**
 * Creates the catalog, which has the jobs for sale, their policies, and their amounts in each token. A job has no amount in a
 * token whose configuration does not match its contract, or whose kind of payment cannot be offered.
 */
export function toCatalog(
  x402: X402Toml,
  prices: PriceList,
  { rateOf, isTokenValid, offerable, removed = [] }: CatalogSources,
): Catalog {
  const tokens = new Map(x402.accepted_tokens.map((config) => [config, toToken(config)]));
  const policyOf = createPolicies(x402);
  const listed = [...prices].map(([key, job]): [string, ListedJob] => [
    key,
    { ...job, policy: policyOf(job), cached: undefined },
  ]);
  const byKey = new Map(listed);
  const priceInputs = createPriceInputs(x402.accepted_tokens, rateOf, isTokenValid, offerable);

  function pricesOf(priceWei: bigint, { rates, kinds }: PriceInputs): Pick<Job, "prices" | "unsupported"> {
    const all = currentOffers(priceWei, x402.accepted_tokens, (token) => rates.get(token)).flatMap(
      ({ token: config, amount }) => {
        const token = tokens.get(config);
        if (token === undefined) return [];
        const gasSponsorings = gasSponsoringsOf(token, kinds.supports);
        return [{ token, amount, versions: versionsOf(token, kinds), gasSponsorings }];
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
    const rates = priceInputs();
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
      return { ...job, priceWei, ...pricesOf(priceWei, priceInputs()), operatorQuote };
    },
  };
}

/**
 * Returns the catalog of a draining deployment. It still has the tokens, so that earlier payments can be read, but sells no job.
 */
export function toDrained(catalog: Catalog): Catalog {
  return {
    ...catalog,
    onSale: [],
    get() {
      throw drainingError();
    },
  };
}

/** Returns the error for a client that wants to buy while the deployment is draining. */
export function drainingError(): AppError {
  return new AppError("payment.unavailable", {
    reason: "this deployment is draining (postern x402 --drain)",
    publicDetail:
      "This gateway no longer sells jobs. Nothing was charged. Earlier purchases are still answered.",
    retryAfterMs: 60_000,
  });
}

/**
 * Returns a catalog that sells nothing while payments are unaudited. They are unaudited after an operator has adopted a Redis
 * that may have lost data, until an audit has compared its payments with the chain.
 */
export function toClosedWhileUnaudited(catalog: Catalog, isUnaudited: () => boolean): Catalog {
  return {
    ...catalog,
    get(ids) {
      if (isUnaudited()) throw unauditedError();
      return catalog.get(ids);
    },
  };
}

/** Returns the error for a client that wants to buy after an adoption of Redis and before the audit that must follow it. */
export function unauditedError(): AppError {
  return new AppError("payment.unavailable", {
    reason:
      "payments are unaudited since Redis was adopted: run `postern payments audit` (docs/backup.md#adopt)",
    publicDetail:
      "This gateway does not sell jobs at the moment. Nothing was charged. Earlier purchases are still answered.",
    retryAfterMs: 60_000,
  });
}

/** A job of the price list. `cached` is the job with its amounts, and the inputs from which they were computed. */
type ListedJob = JobPrice & Pick<Job, "policy"> & { cached: { rates: PriceInputs; job: Job } | undefined };

/**
 * Everything that the amounts of all jobs depend on: the rates of the tokens whose configuration is valid, and the kinds of
 * payment that can be offered.
 */
type PriceInputs = { rates: ReadonlyMap<AcceptedToken, string | undefined>; kinds: Kinds };

/**
 * Creates a function that returns the current inputs of all prices. It returns the same object until a rate or the supported kinds of
 * payment change.
 */
function createPriceInputs(
  tokens: readonly AcceptedToken[],
  rateOf: RateOf<AcceptedToken>,
  isTokenValid: (token: AcceptedToken) => boolean,
  offerable: () => Kinds,
): () => PriceInputs {
  const changing = tokens.filter(isLive);
  const read = (): PriceInputs => ({
    rates: new Map(tokens.filter(isTokenValid).map((token) => [token, rateOf(token)])),
    kinds: offerable(),
  });
  let now = read();
  const isOutdated = ({ rates, kinds }: PriceInputs) =>
    kinds !== offerable() ||
    tokens.some((token) => isTokenValid(token) !== rates.has(token)) ||
    changing.some((token) => rates.has(token) && rateOf(token) !== rates.get(token));
  return () => {
    if (isOutdated(now)) now = read();
    return now;
  };
}

/** Returns the versions in which a facilitator could settle a payment in this token. */
function versionsOf({ network, v1, v1Network, scheme }: Token, kinds: Kinds): Versions {
  return {
    v1: v1 && v1Network !== undefined && kinds.supports({ x402Version: 1, scheme, network: v1Network }),
    v2: kinds.supports({ x402Version: 2, scheme, network }),
  };
}

/**
 * Returns the protocol extensions by which a payer without gas can have a facilitator send the approval of this token to the
 * chain. Only extensions that a facilitator supports are returned.
 */
export function gasSponsoringsOf(
  { method, scheme, network, extra }: Token,
  supports: Kinds["supports"],
): readonly GasSponsoring[] {
  const isSupported = (extension: GasSponsoring) => supports({ x402Version: 2, scheme, network, extension });
  return method.gasSponsorings(extra).filter(isSupported);
}

/** Creates a function that logs each token that is no longer offered because no facilitator supports it, and each that is offered again. */
export function createLogTokenKinds(tokens: readonly Token[], log: Logger) {
  const unsupported = new Set<Token>();
  return (offerable: Kinds): void => {
    for (const token of tokens) {
      const { network, asset, symbol } = token;
      const { v1, v2 } = versionsOf(token, offerable);
      const isSupported = v1 || v2;
      if (isSupported === !unsupported.has(token)) continue;
      if (isSupported) unsupported.delete(token);
      else unsupported.add(token);
      if (isSupported) log.info("token.supported", { network, asset, symbol });
      else log.error("token.unsupported", { network, asset, symbol });
    }
  };
}

/** `Retry-After` for a job without a price. A rate that is missing now may be known again after this time. */
const RATE_RETRY_MS = 10_000;

/** Throws `price.unavailable` if the job has no amount in any token. */
export function assertOffered(job: Job): void {
  const error = noOfferError(job);
  if (error !== undefined) throw error;
}

/** Returns the error that `assertOffered` throws, if any. */
export function noOfferError({ prices, unsupported, jobIndex, serviceId }: Job): AppError | undefined {
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

/** Returns the path of a job's URL. The record of a payment has it, and the payment cannot buy at another path. */
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
