import type { IncomingMessage } from "node:http";
import { platformKeys } from "../../../shared/call/job-call.ts";
import type { JobIds } from "../../../shared/call/job-ids.ts";
import type { Address } from "../../../shared/chain/address.ts";
import { keccak256Hex, toHex } from "../../../shared/chain/encoding.ts";
import { recoverAddress } from "../../../shared/chain/signatures.ts";
import { domainSeparator, type Eip712Domain } from "../../../shared/chain/typed-data.ts";
import { headerValues } from "../../../shared/http/headers.ts";
import type { PaymentJournal } from "../../../shared/payments/journal.ts";
import { routeOfPayer } from "../../../shared/payments/payment.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { CLOCK_CHANGE_MS, type Clock } from "../../../shared/platform/time/clock.ts";
import {
  decodeQuoteHeader,
  type JobQuote,
  jobQuoteDigest,
  type SignedJobQuote,
} from "../../../shared/pricing/job-quote.ts";
import type { Partitioned } from "../../../shared/redis/partition.ts";

/** A quote that an operator's pricing engine has signed. A request that sends it buys the job at its price. */
export type OperatorQuote = { quote: JobQuote; digest: `0x${string}` };

type Deps = {
  /** Addresses of the operators whose quotes are accepted. */
  operators: readonly Address[];
  /** EIP-712 domain for which operators sign their quotes. Undefined if no quotes are accepted. */
  domain: Eip712Domain | undefined;
  metadataPrefix: string;
  /** Clock of Redis. Redis itself deletes the record of a used quote by this clock. */
  clock: Clock;
};

/**
 * Header in which every gateway accepts a quote, regardless of its `metadata_prefix`. Pricing engines name it to their clients,
 * who need not know the prefix.
 */
const DEFAULT_HEADER = "X-PLATFORM-QUOTE";

/** Returns the names of the headers in which a quote may be sent. A request must use only one of them. */
export function quoteHeaders(metadataPrefix: string): string[] {
  return [...new Set([platformKeys(metadataPrefix).quote.toUpperCase(), DEFAULT_HEADER])];
}

const HEADER_BYTES_MAX = 4096;
/** Tolerance for an operator's clock that is ahead of Redis' clock. */
const CLOCK_SKEW_SECONDS = 30n;
/**
 * Limit on the validity of a quote. Redis must remember a used quote until it has expired, so a quote without a limit would be
 * stored forever.
 */
const LIFE_SECONDS_MAX = 30n * 86_400n;

/** Reads the operators' quotes in requests. */
export class OperatorQuotes {
  readonly #headers: readonly string[];
  readonly #separator: string | undefined;
  readonly #operators: ReadonlySet<string>;
  readonly #clock: Clock;

  constructor({ operators, domain, metadataPrefix, clock }: Deps) {
    this.#headers = quoteHeaders(metadataPrefix).map((name) => name.toLowerCase());
    this.#separator = domain === undefined ? undefined : domainSeparator(domain);
    this.#operators = new Set(operators.map((address) => address.toLowerCase()));
    this.#clock = clock;
  }

  /**
   * Reads the quote of a request, and verifies its job, its expiry and its operator's signature. Returns undefined if the request
   * has no quote. Throws `quote.malformed`, `quote.rejected` and `quote.expired`. None of these errors is a 402, because a client
   * would answer a 402 by paying the list price in it.
   */
  read(req: IncomingMessage, ids: JobIds): OperatorQuote | undefined {
    if (this.#headers.every((header) => req.headers[header] === undefined)) return undefined;
    if (this.#separator === undefined || this.#operators.size === 0)
      throw rejectedQuote("this gateway accepts no operator quotes");
    const { quote, signature } = decoded(this.#headers.flatMap((header) => headerValues(req, header)));
    const digest = jobQuoteDigest(this.#separator, quote);
    const signer = recoverAddress(digest, signature);
    if (signer === undefined || !this.#operators.has(signer))
      throw rejectedQuote("it is not signed by an operator that this gateway trusts");
    assertJob(quote, ids);
    assertLasts(quote, BigInt(Math.floor(this.#clock() / 1000)));
    return { quote, digest: toHex(digest) };
  }

  /**
   * Reads the quote of a request that repeats a payment. The payment gets its first answer even if the quote is no longer
   * accepted, so this function does not throw: it returns undefined then.
   */
  readIfAccepted(req: IncomingMessage, ids: JobIds): OperatorQuote | undefined {
    try {
      return this.read(req, ids);
    } catch {
      return undefined;
    }
  }
}

/**
 * Returns the record by which the claim marks a quote as used: its digest, and the time until which Redis remembers it (unix ms).
 * One second is added to the expiry, because the quote is still valid during its last second.
 */
export function toQuoteUse({ quote, digest }: OperatorQuote): { digest: string; keptUntil: number } {
  return { digest, keptUntil: (Number(quote.expiry) + 1) * 1000 + CLOCK_CHANGE_MS };
}

type Journals = Partitioned<Pick<PaymentJournal, "findQuoted">>;

/**
 * Finds the id of the call whose payment has used up the quote. Only the quote's requester can have used it, and all payments of
 * one payer are in one partition. So only that partition is read.
 */
export function findCallByQuote(
  { quote, digest }: OperatorQuote,
  journals: Journals,
): Promise<string | undefined> {
  return journals.of(routeOfPayer(quote.requester)).findQuoted(digest);
}

/** Throws `quote.rejected` if the payer is not the requester of the quote. */
export function assertRequester({ quote }: OperatorQuote, payer: Address): void {
  if (quote.requester !== payer) throw rejectedQuote("the payer is not its requester");
}

/** Throws `quote.rejected` if the body does not match the quote's hash of the inputs. */
export function assertInputs({ quote }: OperatorQuote, body: Uint8Array): void {
  if (quote.inputsHash !== keccak256Hex(body)) throw rejectedQuote("the body does not match its inputs_hash");
}

function decoded([value, ...more]: readonly string[]): SignedJobQuote {
  if (value === undefined || more.length > 0) throw malformed("the quote's header was sent more than once");
  if (value.length > HEADER_BYTES_MAX)
    throw malformed(`the quote's header is longer than ${HEADER_BYTES_MAX} bytes`);
  const read = decodeQuoteHeader(value);
  if (!read.ok) throw malformed(read.problem);
  return read.signed;
}

function assertJob({ serviceId, jobIndex }: JobQuote, ids: JobIds): void {
  if (serviceId !== BigInt(ids.serviceId) || jobIndex !== ids.jobIndex)
    throw rejectedQuote("it is for another job");
}

function assertLasts({ timestamp, expiry }: JobQuote, now: bigint): void {
  if (expiry < now) throw expiredQuote();
  if (timestamp > now + CLOCK_SKEW_SECONDS) throw rejectedQuote("it is not valid yet");
  if (expiry > now + LIFE_SECONDS_MAX) throw rejectedQuote("it is valid for more than 30 days");
}

function malformed(detail: string): AppError {
  return AppError.public("quote.malformed", detail);
}

export function expiredQuote(): AppError {
  return AppError.public("quote.expired", "the quote has expired; ask for a new one");
}

export function rejectedQuote(detail: string): AppError {
  return new AppError("quote.rejected", { reason: detail, publicDetail: `the quote: ${detail}` });
}
