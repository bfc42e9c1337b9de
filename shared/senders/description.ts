/*
 * How a sender of webhooks signs, identifies and sets up its deliveries, as data: the keys of an endpoint in webhooks.toml
 * beside its path, its job and its secret. A preset is one such description. Text with {placeholders} is a template
 * (template.ts).
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
export type Timestamp = {
  /** Where it is: exactly one of these. */
  readonly header?: string;
  readonly pair?: string;
  /** A JSON Pointer into the body. */
  readonly field?: string;
  readonly unit: TimeUnit;
  /** How old it may be, and how far ahead of our clock. Without them only its form is checked. */
  readonly past_secs?: number;
  readonly future_secs?: number;
};

/** One way to sign. */
export type Scheme = {
  /** Where the signature is: exactly one of these. Of several headers, the first that the request has. */
  readonly header?: string | readonly string[];
  readonly query?: string;
  /** A JSON Pointer into the body. */
  readonly field?: string;
  /** Any of the headers may hold the good signature. */
  readonly any_header?: boolean;
  /** Text that stands before the signature, exactly. */
  readonly prefix?: string;
  /** It may be missing. */
  readonly prefix_optional?: boolean;
  /**
   * The value is a list such as `t=1,v1=ab`: any item with this key may be the good signature, all others are ignored. Without a
   * key, any item that is written as a signature may be it.
   */
  readonly list?: { readonly separator: string; readonly assign?: string; readonly key?: string };
  readonly encoding?: Encoding;
  readonly algorithm: Algorithm;
  readonly secret_format?: SecretFormat;
  /** The bytes that are signed. */
  readonly signed?: string;
  /** A query parameter that is the hex SHA-256 of the body, if the request has it: then {form} is empty. */
  readonly body_sha256_query?: string;
  /**
   * The sender may add to the query of `public_url`, after `&`. Then {form}, which must follow {url}, must begin with this field,
   * and the query must not hold its name, so that no byte can move between query and form.
   */
  readonly form_begins_with?: string;
  /** The URL may have been signed with its port or without. */
  readonly url_port_optional?: boolean;
  readonly timestamp?: Timestamp;
  /** Headers that must have exactly this value. */
  readonly require?: Readonly<Record<string, string>>;
};

/** The answer to an accepted delivery. Without it: 202, with our JSON. */
export type Answer = {
  readonly status?: 200 | 201 | 202 | 204;
  readonly content_type?: string;
  /** Instead of our JSON. */
  readonly body?: string;
  /** The status over a rate limit, which makes this sender come again. */
  readonly limited?: 429 | 503;
  /** The status after too many refused credentials of one address: a sender that tries us with bad ones wants only 401. */
  readonly refusals_limited?: 401 | 429;
};

/** A request by which a sender sets up an endpoint. It is answered and never queued. */
export type Handshake = {
  readonly method?: "GET" | "HEAD" | "OPTIONS" | "POST";
  /** Values that the request must have, by template; a `*` at the end is any text. Only a signed handshake can be told by its body. */
  readonly when?: Readonly<Record<string, string>>;
  /**
   * The fields of which the whole body consists: a form of at most 1 KiB. A field with the value `*` may be missing. Only without
   * a proof.
   */
  readonly form?: Readonly<Record<string, string>>;
  /**
   * What is proven before the answer: nothing (then a request with the method of a delivery must have no credential at all), the endpoint's credential, the verify token in this query parameter, or that
   * the operator has opened the endpoint (`postern endpoint open`) for the secret in this header.
   */
  readonly proof:
    | "none"
    | "credential"
    | { readonly verify_token: string }
    | { readonly secret_header: string };
  readonly status?: 200 | 204;
  readonly content_type?: string;
  /** Templates. In `json`, the value {mac} is the MAC of `mac.of` under the first secret. */
  readonly body?: string;
  readonly json?: Readonly<Record<string, string | number>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly mac?: { readonly of: string; readonly encoding: "hex" | "base64"; readonly prefix?: string };
};

/** What a description can say. Every key may also stand in webhooks.toml, where it wins over the preset's. */
export type Description = {
  readonly auth?: "signature" | "api-key" | "basic" | "bearer" | "token";
  readonly signature?: Scheme | readonly Scheme[];
  readonly api_key_header?: string;
  /** A query parameter or a field of the body (as a JSON Pointer) that holds the secret itself. */
  readonly token_query?: string;
  readonly token_field?: string;
  /** The methods of a delivery. Without it: POST. */
  readonly methods?: readonly ("POST" | "PUT")[];
  readonly delivery_id?: string;
  readonly event_type?: string;
  readonly forward_headers?: readonly string[];
  readonly encoded_bodies?: "refuse" | "decode";
  readonly signature_over?: "received" | "decoded";
  readonly answer?: Answer;
  readonly handshakes?: readonly Handshake[];
};

/** A description with what docs/senders.md says of the sender. */
export type Preset = {
  readonly sender: string;
  /** Where the sender documents it. */
  readonly source: string;
  /** What to set at the sender. */
  readonly setup: string;
  /** What the credential leaves open, beside what follows from the description. */
  readonly open?: readonly string[];
  readonly endpoint: Description;
};
