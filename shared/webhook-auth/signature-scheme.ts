import { z } from "zod";
import { headerName, type Input, orElse, pointer, REQUEST_PARTS, template } from "./fields.ts";

/*
 * One way to sign a delivery, as data: the key `signature` of an endpoint in webhooks.toml and of a preset. Each key is checked by itself
 * here, and the rules between them are in shared/config/signature-toml.ts. Text with {placeholders} is a template (template.ts).
 */

export const ALGORITHMS = [
  "hmac-sha1",
  "hmac-sha256",
  "hmac-sha512",
  /** A plain hash of what `signed` says, which then has to hold {secret}. Keccak-256 is Ethereum's, not SHA3-256. */
  "sha256",
  "keccak-256",
  "ed25519",
  /** ECDSA on P-256 with SHA-256, the signature as DER. */
  "ecdsa-p256",
  /** No signature: the value is the secret itself. */
  "equal",
] as const;
export type Algorithm = (typeof ALGORITHMS)[number];

/** Whether only the holder of a private key can sign. */
export function needsPrivateKey(algorithm: Algorithm): boolean {
  return algorithm === "ed25519" || algorithm === "ecdsa-p256";
}

/** How a signature is written. Each has one spelling of the same bytes, but for `hex-any-case`. */
export const ENCODINGS = ["hex", "hex-upper", "hex-any-case", "0x-hex", "base64"] as const;
export type Encoding = (typeof ENCODINGS)[number];

/** How the operator's secret becomes the key. A secret has the first of the formats of its endpoint that fits it. */
export const SECRET_FORMATS = [
  /** Its UTF-8 bytes as they stand, prefix and all. */
  "text",
  "hex",
  "base64",
  /** `whsec_` and base64. The version of the signature may stand before it, as Supabase shows it: `v1,whsec_`. */
  "whsec",
  /** Base64 with or without `whsec_`. */
  "base64-or-whsec",
  /** Base64 behind `whsec_`; without it, text. */
  "text-or-whsec",
  /** Public keys: 32 bytes of Ed25519 in hex, or in base64 behind `whpk_`; a SubjectPublicKeyInfo in base64 or PEM. */
  "ed25519-hex",
  "ed25519-whpk",
  "spki",
] as const;
export type SecretFormat = (typeof SECRET_FORMATS)[number];

/** `go` is how the language Go prints a time, which is what Tenderly sends. */
export const TIME_UNITS = ["s", "ms", "rfc3339", "go"] as const;
export type TimeUnit = (typeof TIME_UNITS)[number];

/** When the sender signed, or when the event was. It must be covered by the signature. */
export const timestamp = z.strictObject({
  /** Where it is: exactly one of these. */
  header: headerName.optional(),
  pair: z.string().min(1).optional(),
  /** A JSON Pointer into the body. */
  field: pointer.optional(),
  unit: z.enum(TIME_UNITS),
  /** How old it may be, and how far ahead of our clock. Without them only its form is checked. */
  past_secs: z.number().min(0).optional(),
  future_secs: z.number().min(0).optional(),
});
export type Timestamp = Input<typeof timestamp>;

const signedText = template([
  ...REQUEST_PARTS,
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
  /** Where the signature is: exactly one of these. Of several headers, the first that the request has. */
  header: z
    .union([headerName, z.array(headerName).min(1)], orElse("a header name or a list of them"))
    .optional(),
  query: z.string().min(1).optional(),
  /** A JSON Pointer into the body. */
  field: pointer.optional(),
  /** Any of the headers may hold the good signature. */
  any_header: z.boolean().optional(),
  /** Text that stands before the signature, exactly. */
  prefix: z.string().optional(),
  /** It may be missing. */
  prefix_optional: z.boolean().optional(),
  /**
   * The value is a list such as `t=1,v1=ab`: any item with this key may be the good signature, all others are ignored. Without a
   * key, any item that is written as a signature may be it.
   */
  list: z
    .strictObject({
      separator: z.string().min(1),
      assign: z.string().min(1).optional(),
      key: z.string().min(1).optional(),
    })
    .optional(),
  encoding: z.enum(ENCODINGS).optional(),
  algorithm: z.enum(ALGORITHMS),
  secret_format: z.enum(SECRET_FORMATS).optional(),
  /** The bytes that are signed. */
  signed: signedText.optional(),
  /**
   * {url}{form} is signed as Twilio does it. The URL may have its port or not. If the query has `bodySHA256`, that must be the hex SHA-256
   * of the body, and {form} is empty. The sender may add to the query of `public_url`, after `&`. Then {form} must begin with
   * `AccountSid`, and the query must not hold that name, so that no byte can move between query and form.
   */
  twilio: z.boolean().optional(),
  timestamp: timestamp.optional(),
  /** Headers that must have exactly this value. */
  require: z.record(headerName, z.string()).optional(),
});
export type Scheme = Input<typeof scheme>;
