import { z } from "zod";
import { isCovered, isTimed } from "../senders/coverage.ts";
import type { Description, Preset } from "../senders/description.ts";
import { secretProblem } from "../senders/key.ts";
import { PRESETS } from "../senders/presets.ts";
import { toParts } from "../senders/template.ts";
import { slipBetween } from "../text/near.ts";
import { credentialHeaders, type EndpointFields, endpointFields, schemesOf } from "./endpoint-fields.ts";
import { isTable } from "./fields.ts";
import type { Env } from "./secrets.ts";

/** An `[[endpoints]]` table of webhooks.toml, with what its preset says of the sender. */
export function endpoint(env: Env) {
  return z.preprocess(
    withPreset,
    // A transform and no refinement, which would see what is wrong in itself too.
    endpointFields(env).transform((parsed, context) => {
      for (const [key, message] of endpointProblems(parsed)) {
        context.addIssue({ code: "custom", path: [key].flat(), message });
      }
      const { idempotency_header, ...rest } = parsed;
      return { ...rest, delivery_id: deliveryIdOf(parsed) };
    }),
  );
}

export type EndpointToml = z.output<ReturnType<typeof endpoint>>;

/** An idempotency header is a delivery id of one header. */
function deliveryIdOf({
  idempotency_header,
  delivery_id,
}: Pick<EndpointFields, "idempotency_header" | "delivery_id">): string | undefined {
  return idempotency_header === undefined ? delivery_id : `{header:${idempotency_header}}`;
}

const CREDENTIAL_KEYS = ["auth", "signature", "api_key_header", "token_query", "token_field"] as const;

/** An endpoint with what its preset says of the sender. A key of the endpoint wins over the preset's. */
function withPreset(raw: unknown, context: z.RefinementCtx): unknown {
  if (!isTable(raw) || (raw["preset"] === undefined && raw["auth"] !== undefined)) return raw;
  const preset = presetNamed(raw["preset"]);
  if (typeof preset === "string") {
    context.addIssue({ code: "custom", path: ["preset"], message: preset });
    return z.NEVER;
  }
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

/** The preset, or what is wrong with its name. */
function presetNamed(name: unknown): Preset | string {
  if (name === undefined) return "is missing, and so is auth: name one of them";
  if (typeof name !== "string") return "must be text";
  const preset = Object.hasOwn(PRESETS, name) ? PRESETS[name] : undefined;
  if (preset !== undefined) return preset;
  const near = Object.keys(PRESETS).filter(
    (known) => known.startsWith(`${name}-`) || slipBetween(known, name.toLowerCase()) !== undefined,
  );
  const hint = near.length > 0 ? `did you mean ${near.join(" or ")}?` : "docs/senders.md has the list";
  return `knows no sender ${JSON.stringify(name)}: ${hint}`;
}

function merged(under: unknown, over: unknown): unknown {
  if (!isTable(under) || !isTable(over)) return over === undefined ? under : over;
  const keys = new Set([...Object.keys(under), ...Object.keys(over)]);
  return Object.fromEntries([...keys].map((key) => [key, merged(under[key], over[key])]));
}

/**
 * How long delivery ids must be remembered: for as long as a recorded delivery would be accepted by its time. 0 if no replay is
 * refused anyway.
 */
export function rememberedSecsAtLeast(endpoint: EndpointToml): number {
  const schemes = schemesOf(endpoint) ?? [];
  const { delivery_id } = endpoint;
  if (delivery_id === undefined || !isCovered(toParts(delivery_id), schemes) || !isTimed(schemes)) return 0;
  const windows = schemes.map(({ timestamp }) => (timestamp?.past_secs ?? 0) + (timestamp?.future_secs ?? 0));
  return Math.max(0, ...windows);
}

/** What is wrong with a key, or with an element of its list. */
type KeyProblem = [key: string | [list: string, index: number], message: string];

/** What no single key can know. */
function endpointProblems(parsed: EndpointFields): KeyProblem[] {
  return [
    ...jobProblems(parsed),
    ...credentialProblems(parsed),
    ...headerProblems(parsed),
    ...handshakeProblems(parsed),
  ];
}

function jobProblems({ job_id, route_by, answer }: EndpointFields): KeyProblem[] {
  const problems: KeyProblem[] = [];
  if (job_id === undefined && route_by === undefined) problems.push(["job_id", "is missing"]);
  if (job_id !== undefined && route_by !== undefined)
    problems.push(["route_by", "chooses the job, so job_id must not be there"]);
  if (answer.status === 204 && answer.body !== undefined)
    problems.push(["answer", "of status 204 has no body"]);
  return problems;
}

function credentialProblems(parsed: EndpointFields): KeyProblem[] {
  const problems: KeyProblem[] = secretProblems(parsed);
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
export function takesSecretFrom(proof: EndpointFields["handshakes"][number]["proof"]): boolean {
  return typeof proof === "object" && "secret_header" in proof;
}

function secretProblems(parsed: EndpointFields): KeyProblem[] {
  if (parsed.auth !== "signature") return [];
  const { secret, signature, handshakes } = parsed;
  const comesLater = handshakes.some(({ proof }) => takesSecretFrom(proof));
  if (secret === undefined) return comesLater ? [] : [["secret", "is missing"]];
  return secret.flatMap((each, index): KeyProblem[] => {
    const problem = secretProblem(each, signature);
    return problem === undefined ? [] : [[["secret", index], problem]];
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

function headerProblems(parsed: EndpointFields): KeyProblem[] {
  const { idempotency_header, delivery_id, forward_headers, forward_query } = parsed;
  const problems: KeyProblem[] = [];
  const credentials = ["authorization", "cookie", ...credentialHeaders(parsed)];
  const idParts = toParts(deliveryIdOf(parsed) ?? "");
  if (idempotency_header !== undefined && delivery_id !== undefined)
    problems.push([
      "idempotency_header",
      "is another word for a delivery_id of one header: name one of them",
    ]);
  if (
    idParts.some((part) => part.kind === "header" && part.names.some((name) => credentials.includes(name)))
  ) {
    const key = idempotency_header === undefined ? "delivery_id" : "idempotency_header";
    problems.push([key, "is the header of the credential"]);
  }
  for (const [index, name] of forward_headers.entries()) {
    const lower = name.toLowerCase();
    if (credentials.includes(lower))
      problems.push([["forward_headers", index], "is the header of the credential"]);
    else if (NEVER_FORWARDED.includes(lower) || /^x-(?:webhook|x402)-/.test(lower))
      problems.push([["forward_headers", index], "is never forwarded"]);
  }
  if (forward_query && parsed.auth === "token" && parsed.token_query !== undefined)
    problems.push(["forward_query", "would hand the credential on"]);
  return problems;
}

function handshakeProblems(parsed: EndpointFields): KeyProblem[] {
  const { handshakes, verify_token } = parsed;
  const problems: KeyProblem[] = [];
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
