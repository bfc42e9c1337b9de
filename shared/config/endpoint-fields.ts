import { z } from "zod";
import { CALLBACK_KEYS_PATH } from "../call/callback.ts";
import type { Secret } from "../platform/crypto/secret.ts";
import { didYouMean } from "../platform/text/similar-words.ts";
import {
  AUTH_KEYS,
  AUTH_MODES,
  AUTH_NAMES,
  type AuthFields,
  type AuthName,
} from "../webhook-auth/auth-modes.ts";
import { headerName, headerText, pointer, visibleAscii } from "../webhook-auth/fields.ts";
import { filterProblem } from "../webhook-auth/filter/filter.ts";
import { PRESETS } from "../webhook-auth/presets/presets.ts";
import { deliveryKeys } from "../webhook-auth/sender-description.ts";
import { between, rule } from "./between-keys.ts";
import { callbackHosts, callbackUrl } from "./callbacks-toml.ts";
import { addressRange, bodyLimit, id, isTable, positive, rateLimit } from "./fields.ts";
import { handshakes } from "./handshake-toml.ts";
import { jwks } from "./jwks-toml.ts";
import { type SecretSource, secretValue, secretValues } from "./secrets.ts";
import { signature } from "./signature-toml.ts";

/* The keys of an endpoint, each checked by itself. */

const RESERVED_PATHS = ["/webhooks/health", CALLBACK_KEYS_PATH, "/livez", "/readyz", "/metrics"] as const;
/** Prefix of the paths for states and results of calls. */
const CALLS = "/webhooks/calls/";

/**
 * Retention of delivery ids in seconds. The minimum is a minute, the largest `enqueue_timeout_ms`. A gateway may repeat
 * the write of a call for that long, and must still know the id, so that the repeated write does not create a second
 * call.
 */
export const window = z
  .int()
  .min(60)
  .max(10 * 365 * 86_400);

/** Matches the notations of routers for a variable part of a path: `:id`, `*`, `{id}`, `(...)`, `<id>`, `[id]`. */
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

/** Chooses the job of a request by a header, or by a field of its JSON body. */
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

/** Selects the requests for which the endpoint makes calls, with an expression in CEL. */
const when = z
  .string()
  .max(1024, { abort: true })
  .superRefine((text, context) => {
    const problem = filterProblem(text);
    if (problem !== undefined) context.addIssue(problem);
  });

/** Limits for delivered webhooks that are kept (shared/call/kept). */
const keepDelivered = z.strictObject({
  secs: z
    .int()
    .min(60)
    .max(365 * 86_400),
  bytes_max: positive,
});

const publicUrl = z
  .url({ protocol: /^https?$/, message: "must be an http or https URL" })
  .refine((url) => !/#|\/\/[^/]*@/.test(url), "must have no user, password or fragment");

export const everyEndpoint = (from: SecretSource) => ({
  path,
  /** Name of a preset. The keys of the preset are merged into the endpoint before validation. */
  preset: z
    .string()
    .meta({ writtenAs: z.enum(Object.keys(PRESETS)) })
    .optional(),
  job_id: id.optional(),
  route_by: routeBy.optional(),
  when: when.optional(),
  name: headerText.optional(),
  ...deliveryKeys,
  handshakes,
  public_url: publicUrl.optional(),
  // The header's name becomes part of a template, in which | separates several names.
  idempotency_header: headerName.regex(/^[^|]*$/, "must be a single header").optional(),
  idempotency_window_secs: window.optional(),
  forward_query: z.boolean().default(false),
  body_limit_bytes: bodyLimit.optional(),
  verify_token: secretValue(from).optional(),
  allow_ips: z.array(addressRange).min(1).optional(),
  // The limits are token buckets (services/webhooks-gateway/rate-limit.ts).
  rate_limit: rateLimit.optional(),
  rate_limit_per_address: rateLimit.optional(),
  keep_rejected_bodies: z.boolean().default(false),
  keep_result: z.boolean().default(false),
  keep_delivered: keepDelivered.optional(),
  respond: z.enum(["accepted", "result"]).default("accepted"),
  wait_secs: z.number().gt(0).max(3600).optional(),
  callback_url: callbackUrl.optional(),
  callback_hosts: callbackHosts.optional(),
});

/** Returns the schema of an endpoint. The schema has the keys of the endpoint's authentication mode. */
export function endpointFields(from: SecretSource) {
  const every = everyEndpoint(from);
  const secret = secretValues(from);
  const optional = { secret: secret.optional() };
  const secrets = { none: {}, required: { secret }, later: optional, "or-directory": optional };
  const known = ["auth", "secret", ...Object.keys(every), ...AUTH_KEYS];
  const [way, ...ways] = AUTH_NAMES.map((name) =>
    z.strictObject(
      {
        ...every,
        auth: z.literal(name),
        ...secrets[AUTH_MODES[name].secret],
        ...checked(AUTH_MODES[name].keys, from),
      },
      { error: (issue) => unknownKeys(issue, known) },
    ),
  );
  return z.discriminatedUnion("auth", [way as Way, ...ways]) as unknown as z.ZodType<EndpointFields>;
}

type Way = z.ZodObject<{ auth: z.ZodLiteral<AuthName> }>;

/** Returns the keys, with schemas for `signature` and `jwks` that also check their content. */
function checked<Keys extends z.ZodRawShape>(keys: Keys, from: SecretSource): z.ZodRawShape {
  return {
    ...keys,
    ...("signature" in keys && { signature }),
    ...("jwks" in keys && { jwks: jwks(from) }),
  };
}

/**
 * Describes unknown keys: those that only another `auth` has, and those that no endpoint has. `keys` lists the keys
 * of all modes.
 */
function unknownKeys(issue: z.core.$ZodRawIssue, keys: readonly string[]): string | undefined {
  if (issue.code !== "unrecognized_keys") return undefined;
  const auth = JSON.stringify(isTable(issue.input) ? issue.input["auth"] : undefined);
  const lines = issue.keys.map((key) =>
    keys.includes(key) ? `is not used with auth = ${auth}` : `unknown key${didYouMean(key, keys)}`,
  );
  return lines.join("\n");
}

export type EndpointFields = z.output<z.ZodObject<ReturnType<typeof everyEndpoint>>> &
  AuthFields & { readonly secret?: readonly Secret[] | undefined };
