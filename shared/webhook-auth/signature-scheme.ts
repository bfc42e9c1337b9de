import { z } from "zod";
import { headerName, type Input, orElse, pointer, template } from "./fields.ts";
import type { Part } from "./template.ts";

/*
 * One way to sign a delivery, as data: the key `signature` of an endpoint in webhooks.toml and of a preset. This schema
 * checks each key alone. shared/config/signature-toml.ts checks the rules between them. Text with {placeholders} is a
 * template (template.ts).
 */

export const ALGORITHMS = [
  "hmac-sha1",
  "hmac-sha256",
  "hmac-sha512",
  /** Plain hashes of the signed text, which must contain {secret}. Keccak-256 is Ethereum's variant, not SHA3-256. */
  "sha256",
  "keccak-256",
  "ed25519",
  /** ECDSA on P-256 with SHA-256; the signature is DER. */
  "ecdsa-p256",
  /** No signature: the value is the secret itself. */
  "equal",
] as const;
export type Algorithm = (typeof ALGORITHMS)[number];

/** Returns whether only the holder of a private key can sign. */
export function needsPrivateKey(algorithm: Algorithm): boolean {
  return algorithm === "ed25519" || algorithm === "ecdsa-p256";
}

/** Encodings of a signature. In each of them but `hex-any-case`, the same bytes have only one accepted spelling. */
export const ENCODINGS = ["hex", "hex-upper", "hex-any-case", "0x-hex", "base64"] as const;
export type Encoding = (typeof ENCODINGS)[number];

/**
 * Formats of a configured secret. The format determines how the text becomes the key. If the schemes of an endpoint
 * have different formats, each secret is read in the first format that it fits.
 */
export const SECRET_FORMATS = [
  /** UTF-8 bytes of the text, including any prefix. */
  "text",
  "hex",
  "base64",
  /** `whsec_` and base64. The signature's version may precede it, as Supabase shows it: `v1,whsec_`. */
  "whsec",
  /** Base64 with or without `whsec_`. */
  "base64-or-whsec",
  /** Base64 after `whsec_`; without that prefix, text. */
  "text-or-whsec",
  /**
   * Public keys: 32 bytes of Ed25519 in hex, or in base64 after `whpk_`; or a SubjectPublicKeyInfo in base64 or PEM.
   */
  "ed25519-hex",
  "ed25519-whpk",
  "spki",
] as const;
export type SecretFormat = (typeof SECRET_FORMATS)[number];

/** `go` is the format in which the language Go prints a time, used by Tenderly. */
export const TIME_UNITS = ["s", "ms", "rfc3339", "go"] as const;
export type TimeUnit = (typeof TIME_UNITS)[number];

/** Time of the signature or of the event. The signature must cover it. */
export const timestamp = z.strictObject({
  /** Place of the time: exactly one of `header`, `pair` and `field`. */
  header: headerName.optional(),
  pair: z.string().min(1).optional(),
  /** JSON Pointer into the body. */
  field: pointer.optional(),
  unit: z.enum(TIME_UNITS),
  /**
   * Maximum age of the time, and maximum difference if it is ahead of the gateway's clock. Without them, only the form
   * of the time is checked.
   */
  past_secs: z.number().min(0).optional(),
  future_secs: z.number().min(0).optional(),
});
export type Timestamp = Input<typeof timestamp>;

const signedText = template([
  "header",
  "query",
  "field",
  "body",
  "pair",
  "named-headers",
  "timestamp",
  "method",
  "url",
  "form",
  "secret",
]);

export const scheme = z.strictObject({
  /**
   * Place of the signature: exactly one of `header`, `query` and `field`. If several headers are listed, the first one
   * that the request has is read.
   */
  header: z
    .union([headerName, z.array(headerName).min(1)], orElse("a header name or a list of them"))
    .optional(),
  query: z.string().min(1).optional(),
  /** JSON Pointer into the body. */
  field: pointer.optional(),
  /** If true, the signature is accepted in any of the listed headers. */
  any_header: z.boolean().optional(),
  /** Exact text before the signature. */
  prefix: z.string().optional(),
  /** Whether the prefix may be missing. */
  prefix_optional: z.boolean().optional(),
  /**
   * Parses the value as a list such as `t=1,v1=ab`. Items with the key `key` are signatures, and one of them must be
   * valid. Without `key`, each item with the form of a signature is tried.
   */
  list: z
    .strictObject({
      separator: z.string().min(1),
      assign: z.string().min(1).optional(),
      key: z.string().min(1).optional(),
      /** Key for the first item, if the sender sends that item without a key. */
      first: z.string().min(1).optional(),
    })
    .optional(),
  encoding: z.enum(ENCODINGS).optional(),
  algorithm: z.enum(ALGORITHMS),
  secret_format: z.enum(SECRET_FORMATS).optional(),
  /** Template of the signed bytes. */
  signed: signedText.optional(),
  /**
   * Signs {url}{form} as Twilio does:
   * - The URL may include its port or omit it.
   * - If the query has `bodySHA256`, it must be the hex SHA-256 of the body, and {form} is empty.
   * - The sender may append to the query of `public_url`, after `&`. {form} must then begin with `AccountSid`, and the
   *   query must not contain that name. So no byte can move between query and form.
   */
  twilio: z.boolean().optional(),
  timestamp: timestamp.optional(),
  /** Headers that must have exactly this value. */
  require: z.record(headerName, z.string()).optional(),
});
export type Scheme = Input<typeof scheme>;

/** Values of a request that a signature covers, and the age up to which the signature is accepted. */
export type Coverage = Partial<Pick<Scheme, "algorithm" | "timestamp">> & {
  /** Template of the signed bytes, or its parts. */
  readonly signed?: string | readonly Part[] | undefined;
};
