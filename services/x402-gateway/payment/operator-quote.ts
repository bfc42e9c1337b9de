import type { IncomingMessage } from "node:http";
import { AppError } from "../../../shared/errors/app-error.ts";
import type { Address } from "../../../shared/ethereum/address.ts";
import { keccak256Hex, toHex } from "../../../shared/ethereum/encoding.ts";
import { recoverAddress } from "../../../shared/ethereum/signatures.ts";
import { domainSeparator, type Eip712Domain } from "../../../shared/ethereum/typed-data.ts";
import { headerValues } from "../../../shared/http/headers.ts";
import type { JobIds } from "../../../shared/job-call/job-ids.ts";
import { platformKeys } from "../../../shared/job-call/metadata.ts";
import {
  decodeQuoteHeader,
  type JobQuote,
  jobQuoteDigest,
  type SignedJobQuote,
} from "../../../shared/pricing/job-quote.ts";
import type { Clock } from "../../../shared/time/clock.ts";

/** A quote of an operator's pricing engine, brought to be honoured at its price. */
export type PlatformQuote = { quote: JobQuote; digest: `0x${string}` };

/** The quote that a request brings; undefined where it brings none. */
export type ReadQuote = (req: IncomingMessage, ids: JobIds) => PlatformQuote | undefined;

type Deps = {
  /** Whose quotes are honoured. */
  operators: readonly Address[];
  /** What they are signed for; absent where none are honoured. */
  domain: Eip712Domain | undefined;
  metadataPrefix: string;
  clock: Clock;
};

/** Clients need not know the operator's brand. */
const DEFAULT_HEADER = "x-platform-quote";
const HEADER_BYTES_MAX = 4096;
/** What the clocks of the replicas may differ. */
const CLOCK_MARGIN_MS = 10 * 60_000;
/** How far an operator's clock may be ahead of ours. */
const CLOCK_SKEW_SECONDS = 30n;
/** A used quote is remembered until it has expired, so it has to expire. */
const LIFE_SECONDS_MAX = 30n * 86_400n;

/**
 * Believes a quote by its operator's signature alone, as long as it lasts and for the job that it names. Throws
 * `quote.malformed`, `quote.rejected` and `quote.expired`: none of them is a 402, which a client would pay at another price.
 */
export function createReadQuote({ operators, domain, metadataPrefix, clock }: Deps): ReadQuote {
  const headers = [...new Set([platformKeys(metadataPrefix).quote.toLowerCase(), DEFAULT_HEADER])];
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

/** How long the quote has to be remembered as used: longer than any replica's clock lets it be used again. */
export function usedUp({ quote, digest }: PlatformQuote, now: number): { digest: string; ttlMs: number } {
  return { digest, ttlMs: Number(quote.expiry) * 1000 - now + CLOCK_MARGIN_MS };
}

/** Throws `quote.rejected` where another one pays than the quote was made for. */
export function assertRequester({ quote }: PlatformQuote, payer: Address): void {
  if (quote.requester !== payer) throw rejectedQuote("the payer is not its requester");
}

/** Throws `quote.rejected` where the body is not the inputs that the quote was made for. */
export function assertInputs({ quote }: PlatformQuote, body: Uint8Array): void {
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
  if (expiry < now) {
    const detail = "the quote has expired; ask for a new one";
    throw AppError.public("quote.expired", detail);
  }
  if (timestamp > now + CLOCK_SKEW_SECONDS) throw rejectedQuote("it is not valid yet");
  if (expiry > now + LIFE_SECONDS_MAX) throw rejectedQuote("it lasts for more than 30 days");
}

function malformed(detail: string): AppError {
  return AppError.public("quote.malformed", detail);
}

export function rejectedQuote(detail: string): AppError {
  return new AppError("quote.rejected", { reason: detail, publicDetail: `the quote: ${detail}` });
}
