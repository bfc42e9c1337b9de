import { z } from "zod";
import { headerBytes } from "../http/headers.ts";
import { Secret } from "../platform/crypto/secret.ts";
import type { CredentialKind } from "./advice.ts";
import { headerName, orElse, pointer, visibleAscii } from "./fields.ts";
import { type HttpSignature, httpCoverage, httpSignature } from "./http-signature/settings.ts";
import { type AlgorithmName, HTTP_ALGORITHMS, hasKeyPair, TOKEN_ALGORITHMS } from "./keys/algorithms.ts";
import { rejected } from "./rejected.ts";
import { type Coverage, needsPrivateKey, type Scheme, scheme, type Timestamp } from "./signature-scheme.ts";
import { toPointer } from "./template.ts";

/*
 * The authentication modes (`auth` of an endpoint). Each mode declares its configuration keys and the proof that a
 * request must have. All other code sees only the proof, not the mode. The proof's kind (`by`) selects the functions
 * that use it: CHECKS in services/webhooks-gateway/authenticate.ts verifies a request, and SIGNERS in
 * shared/webhook-auth/sample/delivery.ts creates one.
 */

/** Places of the credential in a request. */
export type Places = {
  /** Header names in lower case. */
  readonly headers: readonly string[];
  readonly queries: readonly string[];
  readonly fields: readonly (readonly string[])[];
};

type Common = {
  readonly places: Places;
  /**
   * Kind of the credential. Undefined if the endpoint requires none, or if the kind depends on the headers of a request
   * (`kindOf`).
   */
  readonly kind?: CredentialKind;
  /**
   * Values of the request that the signature covers, for each scheme by which a request may be signed. Undefined if the
   * credential is no signature.
   */
  readonly coverage?: readonly Coverage[];
  /** Value of WWW-Authenticate in a 401 (RFC 9110, section 11.6.1). */
  readonly challenge: string;
};

/** Proof of an endpoint that requires no credential. Its `challenge` is empty. */
type Open = Common & { readonly by: "nothing" };

/**
 * Proof by a header that contains the secret itself: the text `before`, and then the secret, unchanged or encoded by
 * `encode`.
 */
export type SecretHeader = Common & {
  readonly by: "secret";
  readonly header: string;
  readonly before: string;
  readonly encode?: (secret: string) => string;
  /** Reads the secret from the header's value. Throws `webhook.credential_rejected`. */
  readonly read: (value: string) => Buffer;
};

/** A signature by one of these schemes, over the received or the decoded body. */
export type Signed = Common & {
  readonly by: "schemes";
  readonly schemes: readonly Scheme[];
  readonly over: "received" | "decoded";
};

/** Required value of a token's claim. */
export type ClaimValue = string | number | boolean;

/** A signed bearer token (RFC 6750, RFC 7519). It does not cover the body. */
export type Jwt = Common & {
  readonly by: "jwt";
  readonly issuers: readonly string[];
  readonly audience: string;
  /**
   * The issuer's keys as a JSON Web Key Set, or the URL at which the issuer publishes them. The URL may contain a
   * secret.
   */
  readonly jwks: Secret;
  readonly algorithms: readonly AlgorithmName[];
  readonly claims: Readonly<Record<string, ClaimValue>>;
};

/** An HTTP Message Signature (RFC 9421) with a key of the endpoint or of the sender's key directory. */
export type HttpSigned = Common & { readonly by: "http-signature"; readonly signature: HttpSignature };

/** The signature of Amazon SNS, in a body that names its certificate. */
export type SnsMessage = Common & {
  readonly by: "aws-sns";
  readonly topics: readonly string[];
  readonly timestamp: Timestamp;
};

/** The signature of PayPal, in headers that name its certificate. */
export type PayPalMessage = Common & {
  readonly by: "paypal";
  readonly webhookId: string;
  readonly isSandbox: boolean;
  readonly timestamp: Timestamp;
};

/** Proof that an endpoint's requests must have. */
export type Proof = Open | SecretHeader | Signed | Jwt | HttpSigned | SnsMessage | PayPalMessage;

type Auth<Keys extends z.ZodRawShape> = {
  /**
   * Whether an endpoint with this mode has the configuration key `secret`. With `"later"`, it may be missing at first,
   * because a handshake can bring the secret. With `"or-directory"`, a key directory may replace it.
   */
  readonly secret: "none" | "required" | "later" | "or-directory";
  /** Other configuration keys of the mode. */
  readonly keys: Keys;
  /** Configuration keys of which an endpoint must have exactly one. */
  readonly oneOf?: readonly (keyof Keys & string)[];
  /** Examples for configuration keys whose real values only the operator knows. `secret` is not among them. */
  readonly example?: Readonly<Partial<z.input<z.ZodObject<Keys>>>>;
  /** Describes the real values with which the operator must replace the examples. */
  readonly replaceWith?: string;
  readonly proof: (values: Values<Keys>) => Proof;
};

function auth<Keys extends z.ZodRawShape>(declared: Auth<Keys>): Auth<Keys> {
  return declared;
}

function inHeaders(...headers: string[]): Places {
  return { headers, queries: [], fields: [] };
}

function signed(schemes: readonly Scheme[], over: Signed["over"], challenge: string): Signed {
  const places = {
    headers: schemes.flatMap(({ header }) => header ?? []).map((name) => name.toLowerCase()),
    queries: schemes.flatMap(({ query }) => query ?? []),
    fields: schemes.flatMap(({ field }) => (field === undefined ? [] : [toPointer(field)])),
  };
  return {
    by: "schemes",
    ...{ places, coverage: schemes, schemes, over },
    challenge: `${challenge} realm="postern"`,
  };
}

const claimText = z.string().min(1).max(1024);

const signature_over = z.enum(["received", "decoded"]).default("received");

/** Scheme of `hmac-sha256`. The first of these headers that a request has is read. GitHub sends X-Hub-Signature-256. */
const HMAC_SHA256: Scheme = {
  header: ["X-Signature-256", "X-Hub-Signature-256", "X-Webhook-Signature"],
  prefix: "sha256=",
  prefix_optional: true,
  encoding: "hex-any-case",
  algorithm: "hmac-sha256",
};

/**
 * ARN (id) of a topic at Amazon SNS. It must be in a partition of AWS whose SNS hosts are below amazonaws.com or
 * amazonaws.com.cn. Topics with `.fifo` are refused, because they deliver nothing over HTTP.
 */
const topicArn = z
  .string()
  .regex(
    /^arn:aws(?:-cn|-us-gov)?:sns:[a-z]{2}(?:-[a-z]+)+-\d:\d{12}:[A-Za-z0-9_-]{1,256}$/,
    "must be the ARN of a standard topic, such as arn:aws:sns:us-east-1:123456789012:orders",
  );

/**
 * Coverage of SNS signatures. A message is accepted for a day, because SNS can retry for an hour and may itself be
 * late. A signature may also cover Token and SubscribeURL. `signed` omits them, because only the confirmation of a
 * subscription reads them.
 */
const SNS_COVERAGE = {
  signed: "{body:/Message}{body:/MessageId}{body:/Subject}{body:/Timestamp}{body:/TopicArn}{body:/Type}",
  timestamp: { field: "/Timestamp", unit: "rfc3339", past_secs: 86_400, future_secs: 300 },
} as const;

/**
 * Coverage of PayPal's signatures. A message is accepted for four days, because PayPal retries for three. The signature
 * covers only the CRC-32 of the body. The body counts as not covered, because anyone can make another body with the
 * same CRC-32. `signed` omits the webhook's id, which is signed but is not in the request.
 */
const PAYPAL_COVERAGE = {
  signed: "{header:PayPal-Transmission-Id}|{timestamp}",
  timestamp: { header: "PayPal-Transmission-Time", unit: "rfc3339", past_secs: 345_600, future_secs: 300 },
} as const;

export const AUTH_MODES = {
  none: auth({
    secret: "none",
    keys: {},
    proof: () => ({ by: "nothing", places: inHeaders(), challenge: "" }),
  }),

  bearer: auth({
    secret: "required",
    keys: {},
    proof: () => ({
      by: "secret",
      kind: "bearer",
      places: inHeaders("authorization"),
      header: "Authorization",
      before: "Bearer ",
      read: (value) => headerBytes(bearerToken(value)),
      challenge: 'Bearer realm="postern"',
    }),
  }),

  basic: auth({
    secret: "required",
    keys: {
      username: visibleAscii.regex(
        /^[^:]*$/,
        "must not contain a colon, which would end the user name (RFC 7617)",
      ),
    },
    example: { username: "postern" },
    replaceWith: "the user that is set at the sender",
    proof: ({ username }) => ({
      by: "secret",
      kind: "basic",
      places: inHeaders("authorization"),
      header: "Authorization",
      before: "Basic ",
      encode: (password) => Buffer.from(`${username}:${password}`).toString("base64"),
      read: (value) => basicPassword(value, username),
      challenge: 'Basic realm="postern", charset="UTF-8"',
    }),
  }),

  "api-key": auth({
    secret: "required",
    keys: { api_key_header: headerName.default("X-API-Key").transform((name) => name.toLowerCase()) },
    proof: ({ api_key_header: header }) => ({
      by: "secret",
      kind: "api-key",
      places: inHeaders(header),
      header,
      before: "",
      read: headerBytes,
      challenge: `ApiKey realm="postern", header="${header}"`,
    }),
  }),

  token: auth({
    secret: "required",
    keys: { token_query: z.string().min(1).optional(), token_field: pointer.optional() },
    oneOf: ["token_query", "token_field"],
    proof: ({ token_query: query, token_field: field = "" }) =>
      signed([{ algorithm: "equal", ...(query === undefined ? { field } : { query }) }], "received", "Token"),
  }),

  "hmac-sha256": auth({
    secret: "required",
    keys: { signature_over },
    proof: ({ signature_over }) => signed([HMAC_SHA256], signature_over, "HMAC-SHA256"),
  }),

  signature: auth({
    secret: "later",
    keys: {
      signature: z
        .union([scheme, z.array(scheme).min(1)], orElse("a table or a list of tables"))
        .transform((one) => [one].flat()),
      signature_over,
    },
    proof: ({ signature, signature_over }) => signed(signature, signature_over, "Signature"),
  }),

  jwt: auth({
    secret: "none",
    keys: {
      issuer: z.union([claimText, z.array(claimText).min(1)], orElse("a text or a list of texts")),
      audience: claimText,
      jwks: z.string().transform((text) => new Secret(text)),
      algorithms: z.array(z.enum(TOKEN_ALGORITHMS)).min(1).default(["RS256", "ES256"]),
      claims: z
        .record(
          z.string().regex(/^(?!(?:iss|aud|exp|nbf|iat)$)/, "is checked anyway: set issuer and audience"),
          z.union([claimText, z.number(), z.boolean()], orElse("a text, a number or a boolean")),
        )
        .default({}),
    },
    example: {
      audience: "https://hooks.example.com/hooks/events",
      claims: { email: "sender@project.iam.gserviceaccount.com" },
    },
    replaceWith: "the audience and the account that are set at the sender",
    proof: ({ issuer, ...rest }) => ({
      by: "jwt",
      kind: "jwt",
      places: inHeaders("authorization"),
      issuers: [issuer].flat(),
      ...rest,
      challenge: 'Bearer realm="postern"',
    }),
  }),

  "http-signature": auth({
    secret: "or-directory",
    keys: { http_signature: httpSignature },
    proof: ({ http_signature: signature }) => ({
      by: "http-signature",
      kind: hasKeyPair(HTTP_ALGORITHMS[signature.algorithm]) ? "key-pair" : "digest",
      places: inHeaders("signature-input", "signature"),
      coverage: [httpCoverage(signature)],
      signature,
      challenge: 'Signature realm="postern"',
    }),
  }),

  "aws-sns": auth({
    secret: "none",
    keys: { topics: z.array(topicArn).min(1) },
    example: { topics: ["arn:aws:sns:us-east-1:123456789012:orders"] },
    replaceWith: "the ARNs of your topics",
    proof: ({ topics }) => ({
      by: "aws-sns",
      kind: "certificate",
      places: { ...inHeaders(), fields: [["Signature"]] },
      coverage: [SNS_COVERAGE],
      timestamp: SNS_COVERAGE.timestamp,
      topics,
      challenge: 'AWS-SNS realm="postern"',
    }),
  }),

  paypal: auth({
    secret: "none",
    keys: {
      webhook_id: z
        .string()
        .regex(
          /^[A-Za-z0-9]{1,50}$/,
          "must be the id of the webhook, as PayPal shows it: letters and digits",
        ),
      sandbox: z.boolean().default(false),
    },
    example: { webhook_id: "8PT597110X687430L" },
    replaceWith: "the id of the webhook that PayPal shows",
    proof: ({ webhook_id, sandbox }) => ({
      by: "paypal",
      kind: "certificate",
      places: inHeaders("paypal-transmission-sig"),
      coverage: [PAYPAL_COVERAGE],
      timestamp: PAYPAL_COVERAGE.timestamp,
      webhookId: webhook_id,
      isSandbox: sandbox,
      challenge: 'PayPal realm="postern"',
    }),
  }),
};

export type AuthName = keyof typeof AUTH_MODES;

/** Configuration keys that describe an endpoint's credential, besides `secret`. */
export type AuthFields = {
  [Name in AuthName]: { readonly auth: Name } & Values<(typeof AUTH_MODES)[Name]["keys"]>;
}[AuthName];

/**
 * Values of these configuration keys. For a mode without keys, the type is `unknown`, because zod's own type would
 * forbid every key of an endpoint.
 */
type Values<Keys extends z.ZodRawShape> = keyof Keys extends never ? unknown : z.output<z.ZodObject<Keys>>;

export const AUTH_NAMES = Object.keys(AUTH_MODES) as AuthName[];

/** Configuration keys of all authentication modes, besides `secret`. */
export const AUTH_KEYS: readonly string[] = [
  ...new Set(Object.values(AUTH_MODES).flatMap(({ keys }) => Object.keys(keys))),
];

export function proofOf(fields: AuthFields): Proof {
  return (AUTH_MODES[fields.auth] as Auth<z.ZodRawShape>).proof(fields);
}

/** Returns the proof that a preset describes. It lacks values that only the operator knows, such as `username`. */
export function describedProof(endpoint: { readonly auth: AuthName }): Proof {
  const { keys, proof } = AUTH_MODES[endpoint.auth] as Auth<z.ZodRawShape>;
  return proof(z.object(keys).partial().parse(endpoint));
}

/** Returns the signature schemes of a proof; undefined if the credential is not a signature by a scheme. */
export function schemesOf(proof: Proof): readonly Scheme[] | undefined {
  return proof.by === "schemes" ? proof.schemes : undefined;
}

/** Returns whether requests contain the secret itself, so that only those who know the secret can send them. */
export function showsSecret(proof: Proof): boolean {
  return (
    proof.by === "secret" || (schemesOf(proof)?.every(({ algorithm }) => algorithm === "equal") ?? false)
  );
}

/** Returns whether the required claims allow only tokens that are issued to one account. */
export function isOfOneAccount({ claims }: Jwt): boolean {
  return claims["sub"] !== undefined || claims["email"] !== undefined;
}

/**
 * Returns the kind of credential. If the endpoint has several schemes, it is that of the first scheme whose header is
 * `present` in the request. Undefined if the endpoint requires no credential.
 */
export function kindOf(proof: Proof, present: readonly string[]): CredentialKind | undefined {
  if (proof.by !== "schemes") return proof.kind;
  const isPresent = ({ header }: Scheme) =>
    [header ?? []].flat().some((name) => present.includes(name.toLowerCase()));
  const { algorithm = "equal" } = proof.schemes.find(isPresent) ?? proof.schemes[0] ?? {};
  if (algorithm === "equal") return "token";
  return needsPrivateKey(algorithm) ? "key-pair" : "digest";
}

/** Returns the header text that holds this secret. */
export function secretText({ before, encode }: SecretHeader, secret: string): string {
  return before + (encode === undefined ? secret : encode(secret));
}

/**
 * Returns the forms in which this secret may appear in a request, longest first. For HTTP Basic, these are the encoded
 * credentials and the password.
 */
export function shownTexts(proof: Proof, secret: string): string[] {
  return proof.by === "secret" && proof.encode ? [secretText(proof, secret), secret] : [secret];
}

/**
 * Reads a bearer token (RFC 6750). The scheme is case-insensitive, the token is not. Throws
 * `webhook.credential_rejected`.
 */
export function bearerToken(value: string): string {
  const token = /^bearer +(\S.*)$/i.exec(value)?.[1];
  if (token === undefined) throw rejected("malformed", "authorization must be Bearer and a token");
  return token;
}

/**
 * Reads the password of HTTP Basic authentication (RFC 7617). The user name is not secret, so it is compared here. The
 * caller compares the password in constant time.
 */
function basicPassword(value: string, username: string): Buffer {
  const encoded = /^basic +([A-Za-z0-9+/]+={0,2})$/i.exec(value)?.[1];
  if (encoded === undefined) throw rejected("malformed", "authorization must be Basic and base64");
  const credentials = Buffer.from(encoded, "base64");
  const user = Buffer.from(`${username}:`, "utf8");
  if (!credentials.subarray(0, user.length).equals(user))
    throw rejected("mismatch", "the username does not match");
  return credentials.subarray(user.length);
}
