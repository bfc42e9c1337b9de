import { z } from "zod";
import type { Address } from "../ethereum/address.ts";
import { UINT64_MAX, UINT256_MAX } from "../ethereum/encoding.ts";
import { type JobQuote, QUOTED_JOB_INDEX_MAX } from "./job-quote.ts";

/** A quote with its operator's signature: 65 bytes (r, s, v) in 0x hex. */
export type SignedQuote = { quote: JobQuote; signature: `0x${string}` };

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

/** The JSON of a signed quote: integers are decimal strings, bytes are 0x hex. */
export type SignedQuoteJson = z.input<typeof signedQuote>;

/** The value of a quote header: base64 of the JSON `{details, signature}`. */
export function encodeQuoteHeader(signed: SignedQuote): string {
  return Buffer.from(JSON.stringify(toQuoteJson(signed))).toString("base64");
}

export function toQuoteJson({ quote, signature }: SignedQuote): SignedQuoteJson {
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

export type DecodedQuote = { ok: true; signed: SignedQuote } | { ok: false; problem: string };

/** Reads what `encodeQuoteHeader` writes, strictly; whoever signed it. */
export function decodeQuoteHeader(value: string): DecodedQuote {
  const parsed = signedQuote.safeParse(jsonIn(value));
  if (parsed.success) return { ok: true, signed: toSigned(parsed.data) };
  const [issue] = parsed.error.issues;
  const where = issue === undefined || issue.path.length === 0 ? "the quote" : issue.path.join(".");
  return { ok: false, problem: `${where}: ${issue?.message ?? "is malformed"}` };
}

function toSigned({ details, signature }: z.output<typeof signedQuote>): SignedQuote {
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

/** Only the one encoding of each JSON is read (RFC 4648, section 3.5). */
function jsonIn(value: string): unknown {
  const bytes = Buffer.from(value, "base64");
  if (bytes.toString("base64") !== value) return undefined;
  try {
    return JSON.parse(bytes.toString("utf8"));
  } catch {
    return undefined;
  }
}

function decimal(max: bigint) {
  return z
    .string()
    .regex(/^(?:0|[1-9]\d{0,77})$/, "must be an integer in decimal, as a string")
    .transform(BigInt)
    .refine((value) => value <= max, "is too large");
}

function hex(bytes: number) {
  return z
    .string()
    .regex(new RegExp(`^0x[0-9a-fA-F]{${bytes * 2}}$`), `must be 0x and ${bytes * 2} hex digits`)
    .transform((text) => text.toLowerCase() as `0x${string}`);
}
