import { z } from "zod";
import type { Description, Scheme } from "../senders/description.ts";
import { secretProblem } from "../senders/key.ts";
import { PRESETS } from "../senders/presets.ts";
import { toParts } from "../senders/template.ts";
import { addressRange, headerName, headerText, id, isTable, visibleAscii } from "./fields.ts";
import { limitsOfEndpoint } from "./limit-fields.ts";
import { type Env, secretValue, secretValues } from "./secrets.ts";
import { answer, handshakes, pointer, requestText, signature } from "./sender-toml.ts";

const RESERVED_PATHS = ["/webhooks/health", "/livez", "/readyz", "/metrics"] as const;

/** The signature of `auth = "hmac-sha256"`. The first of the headers that a request has decides (GitHub sends the second). */
const HMAC_SHA256: Scheme = {
  header: ["X-Signature-256", "X-Hub-Signature-256", "X-Webhook-Signature"],
  prefix: "sha256=",
  prefix_optional: true,
  encoding: "hex-any-case",
  algorithm: "hmac-sha256",
};

export const bodyLimit = z
  .int()
  .min(0)
  .max(64 * 1024 * 1024);
/** At least a minute: much longer than the time between a claim and its add to the queue. */
export const window = z
  .int()
  .min(60)
  .max(10 * 365 * 86_400);

const path = visibleAscii
  .regex(/^\//, "must start with /")
  .regex(/^[^?#]*$/, "must not hold ? or #: paths are matched exactly")
  .refine((text) => !(RESERVED_PATHS as readonly string[]).includes(text), "is reserved");

/** Which job a request runs: by a header, or by a field of its JSON body. */
const routeBy = z
  .strictObject({
    header: headerName.optional(),
    field: pointer.optional(),
    jobs: z.record(z.string(), id).refine((jobs) => Object.keys(jobs).length > 0, "names no job"),
    unmatched: z.enum(["drop", "refuse"]).default("drop"),
  })
  .refine(({ header, field }) => (header === undefined) !== (field === undefined), "name header or field");

const publicUrl = z
  .url({ protocol: /^https?$/, message: "must be an http or https URL" })
  .refine((url) => !/#|\/\/[^/]*@/.test(url), "must have no user, password or fragment");

const everyEndpoint = (env: Env) => ({
  path,
  preset: z.enum(Object.keys(PRESETS)).optional(),
  job_id: id.optional(),
  route_by: routeBy.optional(),
  name: headerText.optional(),
  methods: z
    .array(z.enum(["POST", "PUT"]))
    .min(1)
    .default(["POST"]),
  public_url: publicUrl.optional(),
  idempotency_header: headerName.optional(),
  delivery_id: requestText.optional(),
  event_type: requestText.optional(),
  idempotency_window_secs: window.optional(),
  forward_headers: z.array(headerName).max(32).default([]),
  forward_query: z.boolean().default(false),
  body_limit_bytes: bodyLimit.optional(),
  encoded_bodies: z.enum(["refuse", "decode"]).default("refuse"),
  answer: answer.prefault({}),
  handshakes,
  verify_token: secretValue(env).optional(),
  allow_ips: z.array(addressRange).min(1).optional(),
  ...limitsOfEndpoint,
});

/** The ways to authenticate. For a new one the compiler names every place that has to know it. */
function authentications(env: Env) {
  const every = everyEndpoint(env);
  const secret = secretValues(env);
  const signatureOver = z.enum(["received", "decoded"]).default("received");
  return z.discriminatedUnion("auth", [
    z.strictObject({ ...every, auth: z.literal("none") }),
    z.strictObject({ ...every, auth: z.literal("bearer"), secret }),
    z.strictObject({ ...every, auth: z.literal("basic"), username: visibleAscii, secret }),
    z.strictObject({
      ...every,
      auth: z.literal("api-key"),
      secret,
      api_key_header: headerName.default("X-API-Key").transform((name) => name.toLowerCase()),
    }),
    z.strictObject({
      ...every,
      auth: z.literal("token"),
      secret,
      token_query: z.string().min(1).optional(),
      token_field: pointer.optional(),
    }),
    z.strictObject({ ...every, auth: z.literal("hmac-sha256"), secret, signature_over: signatureOver }),
    z.strictObject({
      ...every,
      auth: z.literal("signature"),
      secret: secret.optional(),
      signature,
      signature_over: signatureOver,
    }),
  ]);
}

type ParsedEndpoint = z.output<ReturnType<typeof authentications>>;

/** An `[[endpoints]]` table of webhooks.toml, with what its preset says of the sender. */
export function endpoint(env: Env) {
  return z.preprocess(
    withPreset,
    authentications(env)
      .superRefine((parsed, context) => {
        for (const [key, message] of endpointProblems(parsed)) {
          context.addIssue({ code: "custom", path: [key], message });
        }
      })
      .transform(({ idempotency_header, ...parsed }) => ({
        ...parsed,
        delivery_id: idempotency_header === undefined ? parsed.delivery_id : `{header:${idempotency_header}}`,
      })),
  );
}

export type EndpointToml = z.output<ReturnType<typeof endpoint>>;

const CREDENTIAL_KEYS = ["auth", "signature", "api_key_header", "token_query", "token_field"] as const;

/** An endpoint with what its preset says of the sender. A key of the endpoint wins over the preset's. */
function withPreset(raw: unknown): unknown {
  if (!isTable(raw) || typeof raw["preset"] !== "string") return raw;
  const preset = Object.hasOwn(PRESETS, raw["preset"]) ? PRESETS[raw["preset"]] : undefined;
  if (preset === undefined) return raw;
  const described: Record<string, unknown> = { ...(preset.endpoint satisfies Description) };
  const { auth = described["auth"], idempotency_header } = raw;
  if (auth !== described["auth"]) for (const key of CREDENTIAL_KEYS) delete described[key];
  if (raw["token_query"] !== undefined || raw["token_field"] !== undefined) {
    delete described["token_query"];
    delete described["token_field"];
  }
  if (idempotency_header !== undefined) delete described["delivery_id"];
  return merged(described, raw);
}

function merged(under: unknown, over: unknown): unknown {
  if (!isTable(under) || !isTable(over)) return over === undefined ? under : over;
  const keys = new Set([...Object.keys(under), ...Object.keys(over)]);
  return Object.fromEntries([...keys].map((key) => [key, merged(under[key], over[key])]));
}

/** What the requests of an endpoint are signed with; undefined if its credential is something else. */
export function schemesOf(endpoint: ParsedEndpoint | EndpointToml): readonly Scheme[] | undefined {
  switch (endpoint.auth) {
    case "signature":
      return endpoint.signature;
    case "hmac-sha256":
      return [HMAC_SHA256];
    case "token": {
      const { token_query: query, token_field: field } = endpoint;
      return [{ algorithm: "equal", ...(query === undefined ? { field: field ?? "" } : { query }) }];
    }
    case "none":
    case "bearer":
    case "basic":
    case "api-key":
      return undefined;
  }
}

/** The headers that hold an endpoint's credential, in lower case. */
export function credentialHeaders(endpoint: ParsedEndpoint | EndpointToml): readonly string[] {
  switch (endpoint.auth) {
    case "bearer":
    case "basic":
      return ["authorization"];
    case "api-key":
      return [endpoint.api_key_header];
    default:
      return (schemesOf(endpoint) ?? [])
        .flatMap(({ header }) => header ?? [])
        .map((name) => name.toLowerCase());
  }
}

/** What no single key can know. */
function endpointProblems(parsed: ParsedEndpoint): [key: string, message: string][] {
  return [
    ...jobProblems(parsed),
    ...credentialProblems(parsed),
    ...headerProblems(parsed),
    ...handshakeProblems(parsed),
  ];
}

function jobProblems({ job_id, route_by, answer }: ParsedEndpoint): [string, string][] {
  const problems: [string, string][] = [];
  if (job_id === undefined && route_by === undefined) problems.push(["job_id", "is missing"]);
  if (job_id !== undefined && route_by !== undefined)
    problems.push(["route_by", "chooses the job, so job_id must not be there"]);
  if (answer.status === 204 && answer.body !== undefined)
    problems.push(["answer", "of status 204 has no body"]);
  return problems;
}

function credentialProblems(parsed: ParsedEndpoint): [string, string][] {
  const problems: [string, string][] = secretProblems(parsed);
  if (parsed.auth === "token" && (parsed.token_query === undefined) === (parsed.token_field === undefined))
    problems.push(["auth", 'of "token" needs token_query or token_field, and not both']);
  const schemes = schemesOf(parsed) ?? [];
  if (parsed.keep_rejected_bodies && schemes.some(({ field }) => field !== undefined))
    problems.push(["keep_rejected_bodies", "would keep the credential, which is in the body"]);
  const signsUrl = schemes.some(({ signed = "" }) => signed.includes("{url}"));
  if (signsUrl && parsed.public_url === undefined)
    problems.push(["public_url", "is missing: this sender signs the URL as it is written there"]);
  return problems;
}

/** Whether a handshake brings the endpoint's secret (`postern endpoint open`). */
export function takesSecretFrom(proof: ParsedEndpoint["handshakes"][number]["proof"]): boolean {
  return typeof proof === "object" && "secret_header" in proof;
}

function secretProblems(parsed: ParsedEndpoint): [string, string][] {
  if (parsed.auth !== "signature") return [];
  const { secret, signature, handshakes } = parsed;
  const comesLater = handshakes.some(({ proof }) => takesSecretFrom(proof));
  if (secret === undefined) return comesLater ? [] : [["secret", "is missing"]];
  return secret.flatMap((each, index): [string, string][] => {
    const problem = secretProblem(each, signature);
    return problem === undefined ? [] : [[`secret.${index}`, problem]];
  });
}

/** Headers that are a request's own, a hop's, a credential, or one that the runner trusts. */
const NEVER_FORWARDED = [
  ...[
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
  ],
  ...["host", "content-length", "content-type", "content-encoding", "content-digest", "date"],
  ...["authorization", "proxy-authorization", "proxy-authenticate", "cookie", "set-cookie"],
  ...["signature", "signature-input", "idempotency-key", "traceparent"],
];

function headerProblems(parsed: ParsedEndpoint): [string, string][] {
  const { idempotency_header, delivery_id, forward_headers, forward_query } = parsed;
  const problems: [string, string][] = [];
  const credentials = ["authorization", "cookie", ...credentialHeaders(parsed)];
  const readForId = toPartsOf(
    idempotency_header === undefined ? delivery_id : `{header:${idempotency_header}}`,
  );
  if (idempotency_header !== undefined && delivery_id !== undefined)
    problems.push([
      "idempotency_header",
      "is another word for a delivery_id of one header: name one of them",
    ]);
  if (
    readForId.some((part) => part.kind === "header" && part.names.some((name) => credentials.includes(name)))
  ) {
    const key = idempotency_header === undefined ? "delivery_id" : "idempotency_header";
    problems.push([key, "is the header of the credential"]);
  }
  for (const [index, name] of forward_headers.entries()) {
    const lower = name.toLowerCase();
    if (credentials.includes(lower))
      problems.push([`forward_headers.${index}`, "is the header of the credential"]);
    else if (NEVER_FORWARDED.includes(lower) || /^x-(?:webhook|x402)-/.test(lower))
      problems.push([`forward_headers.${index}`, "is never forwarded"]);
  }
  if (forward_query && parsed.auth === "token" && parsed.token_query !== undefined)
    problems.push(["forward_query", "would hand the credential on"]);
  return problems;
}

function toPartsOf(text: string | undefined) {
  return text === undefined ? [] : toParts(text);
}

function handshakeProblems(parsed: ParsedEndpoint): [string, string][] {
  const { handshakes, verify_token } = parsed;
  const problems: [string, string][] = [];
  const asksToken = handshakes.some(({ proof }) => typeof proof === "object" && "verify_token" in proof);
  if (asksToken && verify_token === undefined)
    problems.push(["verify_token", "is missing: this sender proves its set-up request with it"]);
  if (!asksToken && verify_token !== undefined)
    problems.push(["verify_token", "is not used: no handshake asks for it"]);
  const needsMac = handshakes.some(({ mac }) => mac !== undefined);
  if (needsMac && schemesOf(parsed)?.[0]?.algorithm.startsWith("hmac-") !== true)
    problems.push(["handshakes", "can hold mac only beside an HMAC signature"]);
  return problems;
}
