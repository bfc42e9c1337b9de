import type { IncomingMessage } from "node:http";
import { AppError } from "../../../shared/errors/app-error.ts";
import type { Address } from "../../../shared/ethereum/address.ts";
import { keccak256Hex, toHex } from "../../../shared/ethereum/encoding.ts";
import { recoverAddress } from "../../../shared/ethereum/signatures.ts";
import { domainSeparator, type Eip712Domain } from "../../../shared/ethereum/typed-data.ts";
import { headerValues } from "../../../shared/http/headers.ts";
import { platformKeys } from "../../../shared/job-call/job-call.ts";
import type { JobIds } from "../../../shared/job-call/job-ids.ts";
import {
  decodeQuoteHeader,
  type JobQuote,
  jobQuoteDigest,
  type SignedJobQuote,
} from "../../../shared/pricing/job-quote.ts";
import { CLOCK_CHANGE_MS, type Clock } from "../../../shared/time/clock.ts";

/** A quote of an operator's pricing engine, which a request brings to buy at its price. */
export type OperatorQuote = { quote: JobQuote; digest: `0x${string}` };

/** Reads the operator's quote of a request; undefined if it brings none. */
export type ReadOperatorQuote = (req: IncomingMessage, ids: JobIds) => OperatorQuote | undefined;

type Deps = {
  /** The addresses whose quotes are honoured. */
  operators: readonly Address[];
  /** The EIP-712 domain that they sign for; undefined if no quotes are honoured. */
  domain: Eip712Domain | undefined;
  metadataPrefix: string;
  /** Redis', which also expires what is remembered of used quotes. */
  clock: Clock;
};

/** Clients need not know the operator's brand: this is the header that pricing engines tell them of. */
const DEFAULT_HEADER = "X-PLATFORM-QUOTE";

/** The headers that a quote may come in, one of them. */
export function quoteHeaders(metadataPrefix: string): string[] {
  return [...new Set([platformKeys(metadataPrefix).quote.toUpperCase(), DEFAULT_HEADER])];
}

const HEADER_BYTES_MAX = 4096;
/** How far an operator's clock may be ahead of ours. */
const CLOCK_SKEW_SECONDS = 30n;
/** A used quote is remembered until it has expired, so its life has to have an end. */
const LIFE_SECONDS_MAX = 30n * 86_400n;

/**
 * Believes a quote by its operator's signature alone, until it expires and for the job that it names. Throws
 * `quote.malformed`, `quote.rejected` and `quote.expired`: none is a 402, which a client would pay at the list price.
 */
export function createReadOperatorQuote(deps: Deps): ReadOperatorQuote {
  const { operators, domain, metadataPrefix, clock } = deps;
  const headers = quoteHeaders(metadataPrefix).map((name) => name.toLowerCase());
  const separator = domain === undefined ? undefined : domainSeparator(domain);
  const known = new Set(operators.map((address) => address.toLowerCase()));

  return (req, ids) => {
    if (headers.every((header) => req.headers[header] === undefined)) return undefined;
    if (separator === undefined || known.size === 0) throw rejectedQuote("this gateway honours no quotes");
    const { quote, signature } = decoded(headers.flatMap((header) => headerValues(req, header)));
    const digest = jobQuoteDigest(separator, quote);
    const signer = recoverAddress(digest, signature);
    if (signer === undefined || !known.has(signer))
      throw rejectedQuote("it is not signed by an operator whose quotes are honoured here");
    assertJob(quote, ids);
    assertLasts(quote, BigInt(Math.floor(clock() / 1000)));
    return { quote, digest: toHex(digest) };
  };
}

/** The operator's quote of a repeat, which gets its answer whatever its quote is worth by now: one that is not honoured is none. */
export function honouredQuote(
  read: ReadOperatorQuote,
  ...request: Parameters<ReadOperatorQuote>
): OperatorQuote | undefined {
  try {
    return read(...request);
  } catch {
    return undefined;
  }
}

/** What the claim uses up: the digest, and until when it is remembered. In its last second the quote is still good. */
export function toQuoteUse({ quote, digest }: OperatorQuote): { digest: string; keptUntil: number } {
  return { digest, keptUntil: (Number(quote.expiry) + 1) * 1000 + CLOCK_CHANGE_MS };
}

/** Throws `quote.rejected` if the payer is not the one the quote was made for. */
export function assertRequester({ quote }: OperatorQuote, payer: Address): void {
  if (quote.requester !== payer) throw rejectedQuote("the payer is not its requester");
}

/** Throws `quote.rejected` if the body is not the inputs that the quote was made for. */
export function assertInputs({ quote }: OperatorQuote, body: Uint8Array): void {
  if (quote.inputsHash !== keccak256Hex(body))
    throw rejectedQuote("the body is not the inputs it was made for");
}

function decoded([value, ...more]: readonly string[]): SignedJobQuote {
  if (value === undefined || more.length > 0) throw malformed("the quote's header came more than once");
  if (value.length > HEADER_BYTES_MAX)
    throw malformed(`the quote's header is over ${HEADER_BYTES_MAX} bytes`);
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
  if (expiry > now + LIFE_SECONDS_MAX) throw rejectedQuote("it lasts for more than 30 days");
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
