import { z } from "zod";
import { address, headerName, headerText, id, visibleAscii } from "./fields.ts";
import { type Env, secretValues } from "./secrets.ts";

const RESERVED_PATHS = ["/webhooks/health", "/livez", "/readyz", "/metrics"] as const;

/** The first of these that a request has decides (GitHub sends the second). */
export const SIGNATURE_HEADERS = ["x-signature-256", "x-hub-signature-256", "x-webhook-signature"] as const;

/** `webhooks.toml`. Without the file the webhooks gateway is off. */
export function webhooksToml(env: Env) {
  return z.strictObject({
    bind_address: address.default("0.0.0.0:9090"),
    body_limit_bytes: bodyLimit.default(1024 * 1024),
    request_timeout_secs: z.number().min(0.1).max(300).default(15),
    idempotency_window_secs: window.default(7 * 86_400),
    endpoints: z.array(endpoint(env)).min(1, "needs at least one endpoint"),
  });
}
export type WebhooksToml = z.output<ReturnType<typeof webhooksToml>>;
export type EndpointToml = WebhooksToml["endpoints"][number];

/** Endpoints with the path of an earlier one. It takes the file unchecked, so that other problems do not hide these. */
export function repeatedPaths(table: unknown): { path: PropertyKey[]; message: string }[] {
  const endpoints = (table as { endpoints?: unknown }).endpoints;
  if (!Array.isArray(endpoints)) return [];
  const paths = endpoints.map((each: { path?: unknown }) => each?.path);
  return paths.flatMap((text, index) => {
    const first = paths.indexOf(text);
    if (text === undefined || first === index) return [];
    return [{ path: ["endpoints", index, "path"], message: `is also the path of endpoints[${first}]` }];
  });
}

const bodyLimit = z
  .int()
  .min(0)
  .max(64 * 1024 * 1024);
/** At least a minute: much longer than the time between a claim and its add to the queue. */
const window = z
  .int()
  .min(60)
  .max(10 * 365 * 86_400);

const path = visibleAscii
  .regex(/^\//, "must start with /")
  .regex(/^[^?#]*$/, "must not hold ? or #: paths are matched exactly")
  .refine((text) => !(RESERVED_PATHS as readonly string[]).includes(text), "is reserved");

const everyEndpoint = {
  path,
  job_id: id,
  name: headerText.optional(),
  idempotency_header: headerName.transform((name) => name.toLowerCase()).optional(),
  idempotency_window_secs: window.optional(),
  body_limit_bytes: bodyLimit.optional(),
  encoded_bodies: z.enum(["refuse", "decode"]).default("refuse"),
};

/** The ways to authenticate. For a new one the compiler names every place that has to know it. */
function authentications(env: Env) {
  const secret = secretValues(env);
  return z.discriminatedUnion("auth", [
    z.strictObject({ ...everyEndpoint, auth: z.literal("none") }),
    z.strictObject({ ...everyEndpoint, auth: z.literal("bearer"), secret }),
    z.strictObject({
      ...everyEndpoint,
      auth: z.literal("hmac-sha256"),
      secret,
      signature_over: z.enum(["received", "decoded"]).default("received"),
    }),
    z.strictObject({
      ...everyEndpoint,
      auth: z.literal("api-key"),
      secret,
      api_key_header: headerName.default("X-API-Key").transform((name) => name.toLowerCase()),
    }),
  ]);
}

type ParsedEndpoint = z.output<ReturnType<typeof authentications>>;

function endpoint(env: Env) {
  return authentications(env).superRefine((parsed, context) => {
    const { idempotency_header } = parsed;
    if (idempotency_header === undefined || !mayCarryCredential(idempotency_header, parsed)) return;
    context.addIssue({
      code: "custom",
      path: ["idempotency_header"],
      message: "is the header of the credential",
    });
  });
}

const CREDENTIAL_HEADERS: readonly string[] = ["authorization", "cookie", ...SIGNATURE_HEADERS];

function mayCarryCredential(header: string, endpoint: ParsedEndpoint): boolean {
  if (CREDENTIAL_HEADERS.includes(header)) return true;
  switch (endpoint.auth) {
    case "api-key":
      return header === endpoint.api_key_header;
    case "none":
    case "bearer":
    case "hmac-sha256":
      return false;
  }
}
