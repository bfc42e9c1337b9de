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
import { PRESETS } from "../webhook-auth/presets/presets.ts";
import { deliveryKeys } from "../webhook-auth/sender-description.ts";
import { between, rule } from "./between-keys.ts";
import { callbackHosts, callbackUrl } from "./callbacks-toml.ts";
import { addressRange, bodyLimit, id, isTable, rateLimit } from "./fields.ts";
import { handshakes } from "./handshake-toml.ts";
import { type SecretSource, secretValue, secretValues } from "./secrets.ts";
import { signature } from "./signature-toml.ts";

/* The keys of an endpoint, each checked by itself. */

const RESERVED_PATHS = ["/webhooks/health", CALLBACK_KEYS_PATH, "/livez", "/readyz", "/metrics"] as const;
/** Below it are the states and results of calls. */
const CALLS = "/webhooks/calls/";

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
  ...deliveryKeys,
  handshakes,
  public_url: publicUrl.optional(),
  // It becomes a template, where | stands between names.
  idempotency_header: headerName.regex(/^[^|]*$/, "must be a single header").optional(),
  idempotency_window_secs: window.optional(),
  forward_query: z.boolean().default(false),
  body_limit_bytes: bodyLimit.optional(),
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

/** An endpoint has the keys of its way to authenticate. */
export function endpointFields(from: SecretSource) {
  const every = everyEndpoint(from);
  const secret = secretValues(from);
  const secrets = { none: {}, required: { secret }, later: { secret: secret.optional() } };
  const known = ["auth", "secret", ...Object.keys(every), ...AUTH_KEYS];
  const [way, ...ways] = AUTH_NAMES.map((name) =>
    z.strictObject(
      {
        ...every,
        auth: z.literal(name),
        ...secrets[AUTH_MODES[name].secret],
        ...checked(AUTH_MODES[name].keys),
      },
      { error: (issue) => unknownKeys(issue, known) },
    ),
  );
  return z.discriminatedUnion("auth", [way as Way, ...ways]) as unknown as z.ZodType<EndpointFields>;
}

type Way = z.ZodObject<{ auth: z.ZodLiteral<AuthName> }>;

/** The keys, each with the rules between those of its own table. */
function checked<Keys extends z.ZodRawShape>(keys: Keys): z.ZodRawShape {
  return "signature" in keys ? { ...keys, signature } : keys;
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

export type EndpointFields = z.output<z.ZodObject<ReturnType<typeof everyEndpoint>>> &
  AuthFields & { readonly secret?: readonly Secret[] | undefined };
