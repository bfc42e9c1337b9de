import { z } from "zod";
import { CALLBACK_KEYS_PATH } from "../call/callback.ts";
import type { Secret } from "../platform/crypto/secret.ts";
import { didYouMean } from "../platform/text/near.ts";
import type { Scheme } from "../senders/description.ts";
import { PRESETS } from "../senders/presets.ts";
import { between, rule } from "./between-keys.ts";
import { callbackHosts, callbackUrl } from "./callbacks-toml.ts";
import {
  addressRange,
  bodyLimit,
  headerName,
  headerText,
  id,
  isTable,
  rateLimit,
  visibleAscii,
} from "./fields.ts";
import { handshakes } from "./handshake-toml.ts";
import { type SecretSource, secretValue, secretValues } from "./secrets.ts";
import { signature } from "./signature-toml.ts";
import { pointer, requestText } from "./template-fields.ts";

/* The keys of an endpoint, each checked by itself, and what they say of its credential. */

const RESERVED_PATHS = ["/webhooks/health", CALLBACK_KEYS_PATH, "/livez", "/readyz", "/metrics"] as const;
/** Below it are the states and results of calls. */
const CALLS = "/webhooks/calls/";

/** The signature of `auth = "hmac-sha256"`. The first of the headers that a request has decides (GitHub sends the second). */
const HMAC_SHA256: Scheme = {
  header: ["X-Signature-256", "X-Hub-Signature-256", "X-Webhook-Signature"],
  prefix: "sha256=",
  prefix_optional: true,
  encoding: "hex-any-case",
  algorithm: "hmac-sha256",
};

/** At least a minute: longer than a gateway tries to write one call. */
export const window = z
  .int()
  .min(60)
  .max(10 * 365 * 86_400);

/** How routers write a part that may be anything: `:id`, `*`, `{id}`, `(...)`, `<id>`, `[id]`. */
const PATTERN = /\/:[A-Za-z_]\w*|[*{}()<>[\]]/;

const path = visibleAscii
  .regex(/^\//, "must start with /")
  .regex(/^[^?#]*$/, "must not contain ? or #: paths are matched exactly")
  .superRefine((text, context) => {
    const found = PATTERN.exec(text)?.[0].replace(/^\//, "");
    if (found === undefined) return;
    const advice = "give each path its own endpoint, or choose the job with route_by";
    context.addIssue(`must not contain the pattern ${found}: paths are matched exactly; ${advice}`);
  })
  .refine((text) => !(RESERVED_PATHS as readonly string[]).includes(text), "is reserved for Postern")
  .refine((text) => !text.startsWith(CALLS), `is reserved for Postern: results are at ${CALLS}`);

/** Which job a request runs: by a header, or by a field of its JSON body. */
const routeBy = z
  .strictObject({
    header: headerName.optional(),
    field: pointer.optional(),
    jobs: z
      .record(z.string(), id)
      .refine((jobs) => Object.keys(jobs).length > 0, "must list at least one job"),
    unmatched: z.enum(["drop", "refuse"]).default("drop"),
  })
  .check(
    between(
      rule(({ header, field }) => (header === undefined) !== (field === undefined), {
        path: [],
        message: "must have exactly one of header and field",
      }),
    ),
  );

const publicUrl = z
  .url({ protocol: /^https?$/, message: "must be an http or https URL" })
  .refine((url) => !/#|\/\/[^/]*@/.test(url), "must have no user, password or fragment");

const answer = z.strictObject({
  status: z.literal([200, 201, 202, 204]).default(202),
  content_type: headerText.optional(),
  body: z.string().max(4096).optional(),
  limited: z.literal([429, 503]).default(429),
  refusals_limited: z.literal([401, 429]).default(429),
});

const username = visibleAscii.regex(
  /^[^:]*$/,
  "must not contain a colon, which would end the user name (RFC 7617)",
);

export const everyEndpoint = (from: SecretSource) => ({
  path,
  /** A name in PRESETS: what it says is merged in before. */
  preset: z
    .string()
    .meta({ writtenAs: z.enum(Object.keys(PRESETS)) })
    .optional(),
  job_id: id.optional(),
  route_by: routeBy.optional(),
  name: headerText.optional(),
  methods: z
    .array(z.enum(["POST", "PUT"]))
    .min(1)
    .default(["POST"]),
  public_url: publicUrl.optional(),
  // It becomes a template, where | stands between names.
  idempotency_header: headerName.regex(/^[^|]*$/, "must be a single header").optional(),
  delivery_id: requestText.optional(),
  event_type: requestText.optional(),
  idempotency_window_secs: window.optional(),
  forward_headers: z.array(headerName).max(32).default([]),
  forward_query: z.boolean().default(false),
  body_limit_bytes: bodyLimit.optional(),
  encoded_bodies: z.enum(["refuse", "decode"]).default("refuse"),
  answer: answer.prefault({}),
  handshakes,
  verify_token: secretValue(from).optional(),
  allow_ips: z.array(addressRange).min(1).optional(),
  // A token bucket (services/webhooks-gateway/rate-limit.ts).
  rate_limit: rateLimit.optional(),
  rate_limit_per_address: rateLimit.optional(),
  keep_rejected_bodies: z.boolean().default(false),
  keep_result: z.boolean().default(false),
  respond: z.enum(["accepted", "result"]).default("accepted"),
  wait_secs: z.number().gt(0).max(3600).optional(),
  callback_url: callbackUrl.optional(),
  callback_hosts: callbackHosts.optional(),
});

/** An endpoint has the keys of its way to authenticate. For a new way the compiler names every place that has to know it. */
export function endpointFields(from: SecretSource) {
  const every = everyEndpoint(from);
  const secret = secretValues(from);
  const signatureOver = z.enum(["received", "decoded"]).default("received");
  const keys = new Set(Object.keys(every));
  const way = <Own extends z.ZodRawShape>(own: Own) => {
    for (const key of Object.keys(own)) keys.add(key);
    return z.strictObject({ ...every, ...own }, { error: (issue) => unknownKeys(issue, [...keys]) });
  };
  return z.discriminatedUnion("auth", [
    way({ auth: z.literal("none") }),
    way({ auth: z.literal("bearer"), secret }),
    way({ auth: z.literal("basic"), username, secret }),
    way({
      auth: z.literal("api-key"),
      secret,
      api_key_header: headerName.default("X-API-Key").transform((name) => name.toLowerCase()),
    }),
    way({
      auth: z.literal("token"),
      secret,
      token_query: z.string().min(1).optional(),
      token_field: pointer.optional(),
    }),
    way({ auth: z.literal("hmac-sha256"), secret, signature_over: signatureOver }),
    way({
      auth: z.literal("signature"),
      secret: secret.optional(),
      signature,
      signature_over: signatureOver,
    }),
  ]);
}

/** A line for each key that an endpoint with this `auth` has not; `keys` are those of any endpoint. */
function unknownKeys(issue: z.core.$ZodRawIssue, keys: readonly string[]): string | undefined {
  if (issue.code !== "unrecognized_keys") return undefined;
  const auth = JSON.stringify(isTable(issue.input) ? issue.input["auth"] : undefined);
  const lines = issue.keys.map((key) =>
    keys.includes(key) ? `is not used with auth = ${auth}` : `unknown key${didYouMean(key, keys)}`,
  );
  return lines.join("\n");
}

export type EndpointFields = z.output<ReturnType<typeof endpointFields>>;

export function secretsOf(endpoint: EndpointFields): readonly Secret[] {
  return ("secret" in endpoint && endpoint.secret) || [];
}

/** A header that holds the secret after the text `before`, as it is unless there is `encode`. */
type SecretHeader = { by: "secret"; header: string; before: string; encode?: (secret: string) => string };

/** The proof of a request's sender. */
type Proof = { by: "nothing" } | SecretHeader | { by: "schemes"; schemes: readonly Scheme[] };

/** How a sender proves a request to an endpoint, by the endpoint's `auth`. */
export function proofOf(endpoint: EndpointFields): Proof {
  switch (endpoint.auth) {
    case "none":
      return { by: "nothing" };
    case "bearer":
      return { by: "secret", header: "Authorization", before: "Bearer " };
    case "basic": {
      const encode = (password: string) => Buffer.from(`${endpoint.username}:${password}`).toString("base64");
      return { by: "secret", header: "Authorization", before: "Basic ", encode };
    }
    case "api-key":
      return { by: "secret", header: endpoint.api_key_header, before: "" };
    case "token": {
      const { token_query: query, token_field: field = "" } = endpoint;
      return {
        by: "schemes",
        schemes: [{ algorithm: "equal", ...(query === undefined ? { field } : { query }) }],
      };
    }
    case "hmac-sha256":
      return { by: "schemes", schemes: [HMAC_SHA256] };
    case "signature":
      return { by: "schemes", schemes: endpoint.signature };
  }
}

/** The schemes by which the requests of an endpoint are signed; undefined if its credential is something else. */
export function schemesOf(endpoint: EndpointFields): readonly Scheme[] | undefined {
  const proof = proofOf(endpoint);
  return proof.by === "schemes" ? proof.schemes : undefined;
}

/** The text of the header that holds this secret. */
export function secretText({ before, encode }: SecretHeader, secret: string): string {
  return before + (encode === undefined ? secret : encode(secret));
}

/** The headers that hold an endpoint's credential, in lower case. */
export function credentialHeaders(endpoint: EndpointFields): readonly string[] {
  const proof = proofOf(endpoint);
  const names =
    proof.by === "secret"
      ? [proof.header]
      : (schemesOf(endpoint) ?? []).flatMap(({ header }) => header ?? []);
  return names.map((name) => name.toLowerCase());
}
