import { z } from "zod";
import type { Secret } from "../platform/crypto/secret.ts";
import { mustBe } from "../platform/text/must-be.ts";
import { didYouMean, wordsLike } from "../platform/text/similar-words.ts";
import { AUTH_KEYS, AUTH_MODES, AUTH_NAMES, type Proof, proofOf } from "../webhook-auth/auth-modes.ts";
import { acceptedSecs, isSignedBy } from "../webhook-auth/coverage.ts";
import { PRESETS } from "../webhook-auth/presets/presets.ts";
import type { Answer, Description } from "../webhook-auth/sender-description.ts";
import { toParts } from "../webhook-auth/template.ts";
import { between } from "./between-keys.ts";
import { type EndpointFields, endpointFields, everyEndpoint } from "./endpoint-fields.ts";
import { COMMON_RULES, ENDPOINT_RULES } from "./endpoint-problems.ts";
import { isTable } from "./fields.ts";
import { messageFor, oneOf, type Problem, problem, problemsOf, report } from "./problem.ts";
import { type SecretSource, secretValues } from "./secrets.ts";

/** An `[[endpoints]]` table of webhooks.toml, with the keys of its preset merged in. */
export function endpoint(from: SecretSource) {
  const fields = endpointFields(from);
  const every = anyEndpoint(from);
  return z.preprocess(
    (raw, context) => withPreset(raw, every, context),
    fields.check(between(...ENDPOINT_RULES)).transform(toEndpoint),
  );
}

/** An endpoint after validation. The keys of its credential are replaced by `proof`. */
export type EndpointToml = Omit<EndpointFields, "idempotency_header" | "secret"> & {
  readonly secret: readonly Secret[];
  readonly proof: Proof;
};

function toEndpoint({ idempotency_header, secret = [], ...rest }: EndpointFields): EndpointToml {
  return {
    ...rest,
    secret,
    proof: proofOf(rest),
    // If the answer to the sender is the result, the result must be kept.
    keep_result: rest.keep_result || rest.respond === "result",
    delivery_id: deliveryIdOf({ idempotency_header, delivery_id: rest.delivery_id }),
  };
}

/** Turns an idempotency header into a delivery id template with one header. */
function deliveryIdOf({
  idempotency_header,
  delivery_id,
}: Pick<EndpointFields, "idempotency_header" | "delivery_id">): string | undefined {
  return idempotency_header === undefined ? delivery_id : `{header:${idempotency_header}}`;
}

/** Default of `wait_secs`. Slack and Discord wait at most 3 s for an answer. */
const WAIT_SECS = 3;

/** Returns the seconds that a sender waits for the result; undefined if the endpoint answers at once. */
export function waitSecsOf({
  respond,
  wait_secs = WAIT_SECS,
}: Pick<EndpointFields, "respond" | "wait_secs">) {
  return respond === "result" ? wait_secs : undefined;
}

type Row = Readonly<Record<string, unknown>>;

/**
 * Merges the keys of the preset into an endpoint. A key of the endpoint has priority. If `preset` or `auth` is missing
 * or unknown, it is not clear how the sender authenticates. Then this is reported, and the endpoint's other keys are
 * checked with the schema `every`.
 */
function withPreset(raw: unknown, every: z.ZodType, context: z.RefinementCtx): unknown {
  if (!isTable(raw)) return raw;
  const problems = problemsOfSender(raw);
  if (problems !== undefined) {
    const { error } = every.safeParse(raw, { error: messageFor });
    report(context, problems);
    report(context, error?.issues.flatMap(problemsOf) ?? []);
    return z.NEVER;
  }
  const { preset: name } = raw;
  const preset = typeof name === "string" ? PRESETS[name] : undefined;
  if (preset === undefined) return raw;
  const described: Record<string, unknown> = { ...(preset.endpoint satisfies Description) };
  const { auth = described["auth"], idempotency_header } = raw;
  const { oneOf: alternatives = [] } = AUTH_MODES[preset.endpoint.auth] as { oneOf?: readonly string[] };
  const isReplaced = alternatives.some((key) => raw[key] !== undefined);
  if (auth !== described["auth"]) for (const key of ["auth", ...AUTH_KEYS]) delete described[key];
  if (raw["encoded_bodies"] === "refuse") delete described["signature_over"];
  if (isReplaced) for (const key of alternatives) delete described[key];
  if (idempotency_header !== undefined) delete described["delivery_id"];
  if (isTable(raw["answer"]) && raw["answer"]["status"] === 204) {
    described["answer"] = withoutBody(preset.endpoint.answer);
  }
  return merged(described, raw);
}

/**
 * Removes the body and its content type from a preset's answer, because an answer with status 204 has no body. Some
 * presets have a content type without a body. It is kept, because their senders require the header.
 */
function withoutBody({ body, content_type, ...rest }: Answer = {}): Answer {
  return body === undefined && content_type !== undefined ? { ...rest, content_type } : rest;
}

/**
 * Whether the endpoint has neither `preset` nor `auth`, but a key that may be a misspelling of `auth`. The schema then
 * reports that key as unknown.
 */
function hasMisspeltAuth({ preset, auth, ...rest }: Row): boolean {
  const isLike = Object.keys(rest).some((key) => wordsLike(key, ["auth"]).length > 0);
  return preset === undefined && auth === undefined && isLike;
}

/** Says why an endpoint's sender cannot be determined; undefined if it can. Reports nothing if `auth` is misspelt. */
function problemsOfSender(endpoint: Row): Problem[] | undefined {
  const { preset, auth } = endpoint;
  if (hasMisspeltAuth(endpoint)) return [];
  const noPreset = preset === undefined && auth !== undefined ? undefined : whyNoPreset(preset);
  const noWay = whyNoWay(auth);
  if (noPreset === undefined && noWay === undefined) return undefined;
  return [
    ...(noPreset === undefined ? [] : [problem("preset", noPreset)]),
    ...(noWay === undefined ? [] : [problem("auth", noWay)]),
  ];
}

/** Checks an endpoint with a missing or unknown `preset` or `auth`, with the keys and rules that every endpoint has. */
function anyEndpoint(from: SecretSource) {
  const unjudged = Object.fromEntries(["auth", ...AUTH_KEYS].map((key) => [key, z.unknown().optional()]));
  return z
    .strictObject({
      ...(unjudged as Record<never, z.ZodOptional>),
      ...everyEndpoint(from),
      preset: z.unknown().optional(),
      secret: secretValues(from).optional(),
    })
    .check(between(...COMMON_RULES));
}

/** Says why this value of `auth` is invalid; undefined if it is valid or absent. */
function whyNoWay(auth: unknown): string | undefined {
  if (auth === undefined || AUTH_NAMES.some((name) => name === auth)) return undefined;
  const hint = typeof auth === "string" ? didYouMean(auth, AUTH_NAMES, (name) => JSON.stringify(name)) : "";
  return mustBe(oneOf(AUTH_NAMES), auth) + hint;
}

/** Says what is wrong with the name of a preset; undefined if nothing is. */
function whyNoPreset(name: unknown): string | undefined {
  if (name === undefined) return "is missing: set preset or auth";
  if (typeof name !== "string") return "must be a string";
  if (Object.hasOwn(PRESETS, name)) return undefined;
  const near = wordsLike(name, Object.keys(PRESETS)).slice(0, 3);
  const hint = near.length > 0 ? `did you mean ${near.join(" or ")}?` : "docs/senders.md lists them";
  return `must be a known preset, not ${JSON.stringify(name)}; ${hint}`;
}

function merged(under: unknown, over: unknown): unknown {
  if (!isTable(under) || !isTable(over)) return over === undefined ? under : over;
  const keys = new Set([...Object.keys(under), ...Object.keys(over)]);
  return Object.fromEntries([...keys].map((key) => [key, merged(under[key], over[key])]));
}

/**
 * Returns the time in seconds for which delivery ids must at least be remembered: as long as the signature of a
 * recorded delivery is accepted. Returns 0 if a signature is accepted forever, because no retention would be long
 * enough. Returns 0 also if the signature does not cover the delivery id. An attacker could then give the recorded
 * delivery another id.
 */
export function rememberedSecsAtLeast({ delivery_id, proof }: EndpointToml): number {
  if (delivery_id === undefined || !isSignedBy(toParts(delivery_id), proof)) return 0;
  return acceptedSecs(proof) ?? 0;
}
