import { z } from "zod";
import { headerBytes } from "../http/headers.ts";
import type { CredentialKind } from "./advice.ts";
import { headerName, orElse, pointer, visibleAscii } from "./fields.ts";
import { rejected } from "./rejected.ts";
import { needsPrivateKey, type Scheme, scheme } from "./signature-scheme.ts";
import { toPointer } from "./template.ts";

/*
 * The ways to authenticate (`auth` of an endpoint), each declared once: the keys that it has, and the proof that they ask of a request.
 * Everything else knows only the proof. By its kind (`by`), CHECKS in services/webhooks-gateway/authenticate.ts checks a request, and
 * SIGNERS in shared/webhook-auth/sample/delivery.ts makes one.
 */

/** Requests need no proof, and get no challenge. */
type Open = { readonly by: "nothing"; readonly challenge: "" };

/** A header holds the secret after the text `before`, as it is unless there is `encode`. */
export type SecretHeader = {
  readonly by: "secret";
  readonly kind: CredentialKind;
  readonly header: string;
  readonly before: string;
  readonly encode?: (secret: string) => string;
  /** The secret in the header's value. Throws `webhook.credential_rejected`. */
  readonly read: (value: string) => Buffer;
  readonly challenge: string;
};

/** A signature by one of these schemes, over the body as it is received or as it is decoded. */
export type Signed = {
  readonly by: "schemes";
  readonly schemes: readonly Scheme[];
  readonly over: "received" | "decoded";
  readonly challenge: string;
};

/** How the requests of an endpoint prove their sender. `challenge` goes with a 401 (RFC 9110, section 11.6.1). */
export type Proof = Open | SecretHeader | Signed;

type Auth<Keys extends z.ZodRawShape> = {
  /** Whether the endpoint has `secret`. With `"later"` a handshake may bring it. */
  readonly secret: "none" | "required" | "later";
  /** Its other keys. */
  readonly keys: Keys;
  /** The keys of which an endpoint has exactly one. */
  readonly oneOf?: readonly (keyof Keys & string)[];
  readonly proof: (values: Values<Keys>) => Proof;
};

function auth<Keys extends z.ZodRawShape>(declared: Auth<Keys>): Auth<Keys> {
  return declared;
}

const signature_over = z.enum(["received", "decoded"]).default("received");

/** The first of the headers that a request has decides (GitHub sends the second). */
const HMAC_SHA256: Scheme = {
  header: ["X-Signature-256", "X-Hub-Signature-256", "X-Webhook-Signature"],
  prefix: "sha256=",
  prefix_optional: true,
  encoding: "hex-any-case",
  algorithm: "hmac-sha256",
};

export const AUTH_MODES = {
  none: auth({ secret: "none", keys: {}, proof: () => ({ by: "nothing", challenge: "" }) }),

  bearer: auth({
    secret: "required",
    keys: {},
    proof: () => ({
      by: "secret",
      kind: "bearer",
      header: "Authorization",
      before: "Bearer ",
      read: bearerToken,
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
    proof: ({ username }) => ({
      by: "secret",
      kind: "basic",
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
    proof: ({ token_query: query, token_field: field = "" }) => ({
      by: "schemes",
      schemes: [{ algorithm: "equal", ...(query === undefined ? { field } : { query }) }],
      over: "received",
      challenge: 'Token realm="postern"',
    }),
  }),

  "hmac-sha256": auth({
    secret: "required",
    keys: { signature_over },
    proof: ({ signature_over: over }) => ({
      by: "schemes",
      schemes: [HMAC_SHA256],
      over,
      challenge: 'HMAC-SHA256 realm="postern"',
    }),
  }),

  signature: auth({
    secret: "later",
    keys: {
      signature: z
        .union([scheme, z.array(scheme).min(1)], orElse("a table or a list of tables"))
        .transform((one) => [one].flat()),
      signature_over,
    },
    proof: ({ signature: schemes, signature_over: over }) => ({
      by: "schemes",
      schemes,
      over,
      challenge: 'Signature realm="postern"',
    }),
  }),
};

export type AuthName = keyof typeof AUTH_MODES;

/** Keys of an endpoint that describe its credential, beside `secret`. */
export type AuthFields = {
  [Name in AuthName]: { readonly auth: Name } & Values<(typeof AUTH_MODES)[Name]["keys"]>;
}[AuthName];

/** zod takes a table without keys for one whose keys are all forbidden. */
type Values<Keys extends z.ZodRawShape> = keyof Keys extends never ? unknown : z.output<z.ZodObject<Keys>>;

export const AUTH_NAMES = Object.keys(AUTH_MODES) as AuthName[];

/** The keys of all ways to authenticate, beside `secret`. */
export const AUTH_KEYS: readonly string[] = [
  ...new Set(Object.values(AUTH_MODES).flatMap(({ keys }) => Object.keys(keys))),
];

/** Whether an endpoint names a user beside its secret. */
export function namesUser(auth: AuthName): boolean {
  return "username" in AUTH_MODES[auth].keys;
}

export function proofOf(fields: AuthFields): Proof {
  return (AUTH_MODES[fields.auth] as Auth<z.ZodRawShape>).proof(fields);
}

/** The proof that a preset describes. Keys that only the operator knows, such as `username`, are missing. */
export function describedProof(endpoint: { readonly auth: AuthName }): Proof {
  const { keys, proof } = AUTH_MODES[endpoint.auth] as Auth<z.ZodRawShape>;
  return proof(z.object(keys).partial().parse(endpoint));
}

/** The schemes by which requests are signed; undefined if the credential is something else. */
export function schemesOf(proof: Proof): readonly Scheme[] | undefined {
  return proof.by === "schemes" ? proof.schemes : undefined;
}

/** Places of the credential in a request. */
export type Places = {
  /** In lower case. */
  readonly headers: readonly string[];
  readonly queries: readonly string[];
  readonly fields: readonly (readonly string[])[];
};

export function placesOf(proof: Proof): Places {
  switch (proof.by) {
    case "nothing":
      return { headers: [], queries: [], fields: [] };
    case "secret":
      return { headers: [proof.header.toLowerCase()], queries: [], fields: [] };
    case "schemes":
      return {
        headers: proof.schemes.flatMap(({ header }) => header ?? []).map((name) => name.toLowerCase()),
        queries: proof.schemes.flatMap(({ query }) => query ?? []),
        fields: proof.schemes.flatMap(({ field }) => (field === undefined ? [] : [toPointer(field)])),
      };
  }
}

/** Whether a request holds the secret itself, so that only those who know it can send one. */
export function showsSecret(proof: Proof): boolean {
  switch (proof.by) {
    case "nothing":
      return false;
    case "secret":
      return true;
    case "schemes":
      return proof.schemes.every(({ algorithm }) => algorithm === "equal");
  }
}

/** Of several schemes, the kind of the first whose header came. Undefined without a credential. */
export function kindOf(proof: Proof, came: readonly string[]): CredentialKind | undefined {
  switch (proof.by) {
    case "nothing":
      return undefined;
    case "secret":
      return proof.kind;
    case "schemes": {
      const hasCome = ({ header }: Scheme) =>
        [header ?? []].flat().some((name) => came.includes(name.toLowerCase()));
      const { algorithm = "equal" } = proof.schemes.find(hasCome) ?? proof.schemes[0] ?? {};
      if (algorithm === "equal") return "token";
      return needsPrivateKey(algorithm) ? "key-pair" : "digest";
    }
  }
}

/** The text of the header that holds this secret. */
export function secretText({ before, encode }: SecretHeader, secret: string): string {
  return before + (encode === undefined ? secret : encode(secret));
}

/** The texts in which a request may hold this secret, the longest first. A signature holds none. */
export function shownTexts(proof: Proof, secret: string): string[] {
  switch (proof.by) {
    case "nothing":
      return [];
    case "secret":
      return proof.encode === undefined ? [secret] : [secretText(proof, secret), secret];
    case "schemes":
      return [secret];
  }
}

/** RFC 6750: the scheme is case-insensitive, the token is not. */
function bearerToken(value: string): Buffer {
  const token = /^bearer +(\S.*)$/i.exec(value)?.[1];
  if (token === undefined) throw rejected("malformed", "authorization must be Bearer and a token");
  return headerBytes(token);
}

/** RFC 7617. The user's name is no secret; the password is compared in constant time. */
function basicPassword(value: string, username: string): Buffer {
  const encoded = /^basic +([A-Za-z0-9+/]+={0,2})$/i.exec(value)?.[1];
  if (encoded === undefined) throw rejected("malformed", "authorization must be Basic and base64");
  const credentials = Buffer.from(encoded, "base64");
  const user = Buffer.from(`${username}:`, "utf8");
  if (!credentials.subarray(0, user.length).equals(user))
    throw rejected("mismatch", "the username does not match");
  return credentials.subarray(user.length);
}
