import { z } from "zod";
import type { Address } from "../chain/address.ts";
import {
  addressWord,
  bytes32Word,
  keccak256Hex,
  toHex,
  UINT64_MAX,
  UINT256_MAX,
  uintWord,
} from "../chain/encoding.ts";
import { hashOfText, typedDataDigest } from "../chain/typed-data.ts";
import { firstProblem, messageForJson } from "../config/problem.ts";
import { parseBoundedJson } from "../platform/text/bounded-json.ts";
import { decodeStrictly } from "../platform/text/strict-base64.ts";
import { type Solving, solveNow } from "./proof-of-work.ts";

/** An operator's quote: the price of one job on these inputs, for this requester, until its expiry. */
export type JobQuote = {
  /** Address of the requester, in lower case. */
  requester: Address;
  serviceId: bigint;
  jobIndex: number;
  priceWei: bigint;
  /** Unix seconds. */
  timestamp: bigint;
  /** Unix seconds. The quote is still valid in this second. */
  expiry: bigint;
  /** Level of confidentiality; 0 if the engine promises none. */
  confidentiality: number;
  /** Keccak-256 of the inputs: 0x and 64 lower-case hex digits. */
  inputsHash: `0x${string}`;
};

const QUOTE_TYPE = hashOfText(
  "JobQuoteDetails(address requester,uint64 serviceId,uint8 jobIndex,uint256 price,uint64 timestamp,uint64 expiry,uint8 confidentiality,bytes32 inputsHash)",
);

/** The largest job index that a quote can name, because the contracts store it in eight bits. */
export const QUOTED_JOB_INDEX_MAX = 255;

/**
 * Returns the 32 bytes that an operator signs for a quote (EIP-712). They are also the quote's identity: a quote is recorded as
 * used under them.
 */
export function jobQuoteDigest(separator: string, quote: JobQuote): Uint8Array {
  return typedDataDigest(separator, [
    QUOTE_TYPE,
    addressWord(quote.requester),
    uintWord(quote.serviceId),
    uintWord(BigInt(quote.jobIndex)),
    uintWord(quote.priceWei),
    uintWord(quote.timestamp),
    uintWord(quote.expiry),
    uintWord(BigInt(quote.confidentiality)),
    bytes32Word(quote.inputsHash),
  ]);
}

/** A quote with its operator's signature: 65 bytes (r, s, v) in 0x hex. */
export type SignedJobQuote = { quote: JobQuote; signature: `0x${string}` };

const signedQuote = z.strictObject({
  details: z.strictObject({
    requester: hex(20),
    service_id: decimal(UINT64_MAX),
    job_index: decimal(BigInt(QUOTED_JOB_INDEX_MAX)),
    price: decimal(UINT256_MAX),
    timestamp: decimal(UINT64_MAX),
    expiry: decimal(UINT64_MAX),
    confidentiality: decimal(255n),
    inputs_hash: hex(32),
  }),
  signature: hex(65),
});

/** JSON of a signed quote: integers are decimal strings, bytes are 0x hex. */
type SignedJobQuoteJson = z.input<typeof signedQuote>;

/** Returns the value of a quote header: base64 of the JSON `{details, signature}`. */
export function encodeQuoteHeader(signed: SignedJobQuote): string {
  return Buffer.from(JSON.stringify(toQuoteJson(signed))).toString("base64");
}

export function toQuoteJson({ quote, signature }: SignedJobQuote): SignedJobQuoteJson {
  return {
    details: {
      requester: quote.requester,
      service_id: String(quote.serviceId),
      job_index: String(quote.jobIndex),
      price: String(quote.priceWei),
      timestamp: String(quote.timestamp),
      expiry: String(quote.expiry),
      confidentiality: String(quote.confidentiality),
      inputs_hash: quote.inputsHash,
    },
    signature,
  };
}

type DecodedQuote = { ok: true; signed: SignedJobQuote } | { ok: false; problem: string };

/** Reads the value that `encodeQuoteHeader` makes, strictly. Does not check the signature. */
export function decodeQuoteHeader(value: string): DecodedQuote {
  const json = jsonIn(value);
  if (json === undefined) return { ok: false, problem: "the quote: must be JSON in padded base64" };
  const parsed = signedQuote.safeParse(json, { error: messageForJson });
  if (parsed.success) return { ok: true, signed: toSigned(parsed.data) };
  return { ok: false, problem: firstProblem(parsed.error, "the quote") };
}

function toSigned({ details, signature }: z.output<typeof signedQuote>): SignedJobQuote {
  const { requester, service_id, job_index, price, timestamp, expiry, confidentiality, inputs_hash } =
    details;
  const quote = {
    requester: requester as Address,
    serviceId: service_id,
    jobIndex: Number(job_index),
    priceWei: price,
    timestamp,
    expiry,
    confidentiality: Number(confidentiality),
    inputsHash: inputs_hash,
  };
  return { quote, signature };
}

function jsonIn(value: string): unknown {
  const bytes = decodeStrictly(value, "base64");
  if (bytes === undefined) return undefined;
  const parsed = parseBoundedJson(bytes);
  return parsed.ok ? parsed.value : undefined;
}

function decimal(max: bigint) {
  return z
    .string()
    .regex(/^(?:0|[1-9]\d{0,77})$/, "must be a decimal integer in a string")
    .transform(BigInt)
    .refine((value) => value <= max, "is too large");
}

function hex(bytes: number) {
  return z
    .string()
    .regex(new RegExp(`^0x[0-9a-fA-F]{${bytes * 2}}$`), `must be 0x and ${bytes * 2} hex digits`)
    .transform((text) => text.toLowerCase() as `0x${string}`);
}

type QuoteWanted = {
  serviceId: number;
  jobIndex: number;
  /** Address that will redeem the quote or pay with it. */
  requester: string;
  inputs: Uint8Array;
  /** Difficulty of the engine's proof of work, in leading zero bits. */
  difficulty: number;
};

/**
 * Makes the request for a quote to a pricing engine, and does the proof of work that the engine requires. The caller must send
 * the request at once, as JSON with POST, before the proof's timestamp is too old.
 */
export function askForQuote(wanted: QuoteWanted, solving: Solving): { path: string; body: string } {
  const { serviceId, jobIndex, requester, inputs, difficulty } = wanted;
  const { timestamp, proof } = solveNow({ serviceId: BigInt(serviceId), difficulty }, solving);
  const body = JSON.stringify({
    requester,
    inputs_hash: keccak256Hex(inputs),
    challenge_timestamp: String(timestamp),
    proof_of_work: toHex(proof),
  });
  return { path: `/pricing/jobs/${serviceId}/${jobIndex}/quote`, body };
}
