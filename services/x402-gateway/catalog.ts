import type { IncomingMessage } from "node:http";
import type { JobPrice, PriceList } from "../../shared/config/job-pricing-toml.ts";
import type { AcceptedToken, X402Toml } from "../../shared/config/x402-toml.ts";
import { AppError } from "../../shared/errors/app-error.ts";
import { chainIdOf } from "../../shared/ethereum/encoding.ts";
import { permit2Separator } from "../../shared/ethereum/permit2.ts";
import type { TransferMethod } from "../../shared/ethereum/transfer-rules.ts";
import { domainSeparator } from "../../shared/ethereum/typed-data.ts";
import type { CallbackAsked, ReadCallback } from "../../shared/gateway/read-callback.ts";
import { toTarget } from "../../shared/job-call/callback-target.ts";
import { type JobIds, jobKey } from "../../shared/job-call/job-ids.ts";
import type { Logger } from "../../shared/log/logger.ts";
import { currentOffers, type RateOf, signingExtra } from "../../shared/pricing/prices.ts";
import { isLive } from "../../shared/pricing/rates/source.ts";
import { fixedRateOf } from "../../shared/pricing/rates/sources/fixed.ts";
import type { Kinds } from "./facilitator/kinds.ts";
import { type OperatorQuote, type ReadOperatorQuote, rejectedQuote } from "./payment/operator-quote.ts";
import { createPolicies, type JobPolicy } from "./policy/caller.ts";

/** A token that is taken, on its chain. */
export type Token = {
  /** CAIP-2. */
  network: string;
  chainId: number;
  /** As configured, which is how offers name it. */
  asset: string;
  symbol: string;
  payTo: string;
  method: TransferMethod;
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
  /** The networks of those tokens that have a rate, and that no facilitator takes in any version. */
  unsupported: readonly string[];
  /** Where its price comes from, if it is not the price list's. */
  operatorQuote?: OperatorQuote;
};

/** The versions of the protocol in which a token is offered. */
export type Versions = { v1: boolean; v2: boolean };

export type Catalog = {
  tokens: readonly Token[];
  /** The jobs whose policy is not disabled, in the order of the configuration. */
  onSale: readonly JobIds[];
  /** The job, if it has a price: the same object as long as no rate and no kind changes, and another one afterwards. */
  find(ids: JobIds): Job | undefined;
  /** The job, if it is sold. Throws `job.not_found` and `job.disabled`. */
  sold(ids: JobIds): Job;
  /** The job at the price of an operator's quote. */
  quoted(job: Job, operatorQuote: OperatorQuote): Job;
};

/**
 * What is sold, to whom, and for which tokens. Without `rateOf` only tokens with a fixed rate have a price. A token that is not sound
 * has none, nor one of a kind that is not offerable.
 */
export function toCatalog(
  x402: X402Toml,
  prices: PriceList,
  rateOf: RateOf<AcceptedToken> = fixedRateOf,
  isSound: (token: AcceptedToken) => boolean = () => true,
  offerable: () => Kinds = () => ALL_KINDS,
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
    const unsupported = all.filter((price) => !isOffered(price)).map(({ token }) => token.network);
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

  function sold(ids: JobIds): Job {
    const job = priced(ids);
    if (job.policy.mode === "disabled")
      throw new AppError("job.disabled", { reason: "its policy is disabled" });
    return job;
  }

  return {
    tokens: [...tokens.values()],
    onSale: [...byKey.values()].filter(({ policy }) => policy.mode !== "disabled"),
    find,
    sold,
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
    sold() {
      throw soldNoLonger();
    },
  };
}

/** The answer to everybody who would buy while the deployment is drained. */
export function soldNoLonger(): AppError {
  return new AppError("payment.unavailable", {
    reason: "this deployment is being drained (postern x402 --drain)",
    publicDetail:
      "This gateway no longer sells jobs. Nothing was charged. Purchases made here are still answered.",
    retryAfterMs: 60_000,
  });
}

/** A job of the price list, and what it cost at the rates that were looked at last. */
type ListedJob = JobPrice & Pick<Job, "policy"> & { cached: { rates: RatesNow; job: Job } | undefined };

/** The rates of all tokens that are sound, and what facilitators take. */
type RatesNow = { rates: ReadonlyMap<AcceptedToken, string | undefined>; kinds: Kinds };

const ALL_KINDS: Kinds = { takes: () => true };

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

const SCHEME = "exact";

/** The versions in which somebody could settle a payment in this token. */
function versionsOf({ network, v1, v1Network }: Token, kinds: Kinds): Versions {
  return {
    v1: v1 && v1Network !== undefined && kinds.takes({ x402Version: 1, scheme: SCHEME, network: v1Network }),
    v2: kinds.takes({ x402Version: 2, scheme: SCHEME, network }),
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

export type RequestedJob = (req: IncomingMessage, ids: JobIds) => Job;

/**
 * The job that a request is for, at its list price or at that of the operator's quote which the request brings. Throws
 * `job.not_found`, `job.disabled`, `quote.*`, and `request.malformed` or `callback.refused` for a receiver that would not be told.
 */
export function createRequestedJob(
  catalog: Catalog,
  readOperatorQuote: ReadOperatorQuote,
  callbackFor: CallbackFor,
): RequestedJob {
  return (req, ids) => {
    const job = catalog.sold(ids);
    callbackFor(req, job);
    const operatorQuote = readOperatorQuote(req, ids);
    if (operatorQuote === undefined) return job;
    const quoted = catalog.quoted(job, operatorQuote);
    if (quoted.prices.length === 0 && job.prices.length > 0)
      throw rejectedQuote("its price comes to nothing that can be paid");
    return quoted;
  };
}

/** Where the end of the call that this request buys is to be told; undefined if nowhere. */
export type CallbackFor = (req: IncomingMessage, job: Job) => CallbackAsked | undefined;

export function createCallbackFor(read: ReadCallback): CallbackFor {
  return (req, { callbackUrl }) =>
    read(req, callbackUrl === undefined ? undefined : toTarget(new URL(callbackUrl)));
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
      ? `no facilitator supports the kinds of its tokens (${SCHEME} on ${[...new Set(unsupported)].join(", ")})`
      : "no token has a current rate, or is as configured (token.unsound)";
  return new AppError("price.unavailable", {
    reason: `${why}, for job ${jobIndex} of service ${serviceId}`,
    publicDetail: "No accepted token can be paid with now; nothing was charged.",
    retryAfterMs: RATE_RETRY_MS,
  });
}

/** A job's path, which is also what a payment is bound to. */
export function jobPath(ids: JobIds): string {
  return `/x402/jobs/${jobKey(ids)}`;
}

function toToken(config: AcceptedToken): Token {
  const { network, asset, symbol, pay_to: payTo, transfer_method: method, v1 } = config;
  const chainId = chainIdOf(network);
  const common = { network, chainId, asset, symbol, payTo, method, v1, extra: signingExtra(config) };
  // Version 1 has no word for Permit2.
  if (config.transfer_method === "permit2")
    return { ...common, separator: permit2Separator(chainId), v1Network: undefined };
  const { eip3009_name: name, eip3009_version: version } = config;
  const separator = domainSeparator({ name, version, chainId, verifyingContract: asset });
  return { ...common, separator, v1Network: V1_NETWORKS[chainId] };
}

/**
 * The EVM networks that clients of version 1 know, by chain id. Those clients parse a whole 402 or nothing of it: one name that they
 * do not know spoils all offers, so no newer name is here. Old clients know fewer (docs/payments.md, "Clients and wallets").
 */
const V1_NETWORKS: Readonly<Record<number, string>> = {
  2741: "abstract",
  11124: "abstract-testnet",
  84532: "base-sepolia",
  8453: "base",
  43113: "avalanche-fuji",
  43114: "avalanche",
  4689: "iotex",
  1329: "sei",
  1328: "sei-testnet",
  137: "polygon",
  80002: "polygon-amoy",
  3338: "peaq",
};

/** The chain that a network's name in version 1 stands for. */
export function chainIdOfV1(name: string): number | undefined {
  const known = Object.entries(V1_NETWORKS).find(([, each]) => each === name);
  return known && Number(known[0]);
}
