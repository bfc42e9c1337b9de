import { AUTH_MODES, proofOf, schemesOf } from "../webhook-auth/auth-modes.ts";
import { secretProblem } from "../webhook-auth/key.ts";
import { type Part, toParts, toPointer } from "../webhook-auth/template.ts";
import { isHmac } from "../webhook-auth/verifier.ts";
import { inEach, type Rule } from "./between-keys.ts";
import { credentialPlaces, credentialRead } from "./credential-places.ts";
import type { EndpointFields } from "./endpoint-fields.ts";
import { HOP_BY_HOP } from "./fields.ts";
import { httpSignatureProblems } from "./http-signature-toml.ts";
import { type Problem, problem } from "./problem.ts";

/** Keys of an endpoint that do not depend on how its sender authenticates. */
type CommonFields = Pick<
  EndpointFields,
  "job_id" | "route_by" | "answer" | "respond" | "wait_secs" | "callback_url" | "callback_hosts"
>;

/** Rules that hold for every endpoint, however its sender authenticates. */
export const COMMON_RULES: readonly Rule<CommonFields>[] = [jobProblems, answerProblems, callbackProblems];

/** Rules for keys of an endpoint that depend on each other. */
export const ENDPOINT_RULES: readonly Rule<EndpointFields>[] = [
  ...COMMON_RULES,
  secretProblems,
  credentialProblems,
  claimProblems,
  httpSignatureProblems,
  urlProblems,
  deliveryIdProblems,
  readProblems,
  forwardedHeaders,
  forwardedQuery,
  tokenProblems,
  (parsed) => inEach(parsed.handshakes, (handshake, index) => handshakeProblems(parsed, handshake, index)),
  formProblems,
];

function jobProblems({ job_id, route_by }: CommonFields): Problem[] {
  if (job_id === undefined && route_by === undefined)
    return [problem("job_id", "is missing: set job_id or route_by")];
  if (job_id === undefined || route_by === undefined) return [];
  return [problem("route_by", "must not be set together with job_id: set one of the two")];
}

function answerProblems({ answer: { status, body }, respond, wait_secs }: CommonFields): Problem[] {
  const problems: Problem[] = [];
  if (status === 204 && body !== undefined)
    problems.push(problem(["answer", "body"], "must not be set with status 204, which has no body"));
  if (wait_secs !== undefined && respond !== "result")
    problems.push(problem("wait_secs", 'is not used: only respond = "result" waits'));
  return problems;
}

function callbackProblems({ callback_url, callback_hosts }: CommonFields): Problem[] {
  if (callback_url === undefined || callback_hosts === undefined) return [];
  return [problem("callback_hosts", "is not used: callback_url gets every callback")];
}

function credentialProblems(parsed: EndpointFields): Problem[] {
  const proof = proofOf(parsed);
  const problems: Problem[] = [...alternativeProblems(parsed)];
  const isSecretInBody = schemesOf(proof)?.some(({ algorithm, field }) => algorithm === "equal" && field);
  if (parsed.keep_rejected_bodies && isSecretInBody)
    problems.push(problem("keep_rejected_bodies", "must be false: the body contains the credential"));
  if (proof.by === "schemes" && proof.over === "decoded" && parsed.encoded_bodies === "refuse")
    problems.push(
      problem("signature_over", 'is not used: with encoded_bodies = "refuse", no body is decoded'),
    );
  return problems;
}

/** Reports a group of alternative keys unless exactly one of them is set. */
function alternativeProblems(parsed: EndpointFields): Problem[] {
  const { oneOf: keys }: { oneOf?: readonly string[] } = AUTH_MODES[parsed.auth];
  const given = keys?.filter((key) => Reflect.get(parsed, key) !== undefined);
  if (keys === undefined || given?.length === 1) return [];
  return [problem("auth", `${JSON.stringify(parsed.auth)} needs exactly one of ${keys.join(" and ")}`)];
}

function secretProblems(parsed: EndpointFields): Problem[] {
  const { auth, secret, handshakes } = parsed;
  if (secret === undefined) {
    const isMissing =
      AUTH_MODES[auth].secret === "later" && !handshakes.some(({ proof }) => takesSecretFrom(proof));
    return isMissing ? [problem("secret", "is missing")] : [];
  }
  const schemes = schemesOf(proofOf(parsed));
  return inEach(secret, (each, index) => {
    const message = schemes && secretProblem(each, schemes);
    return message === undefined ? [] : [problem(["secret", index], message)];
  });
}

const CLAIMS_OF_GOOGLE = ["sub", "email"];

/**
 * Issuers that give anyone a token for any audience. For each, the claims that identify the token's owner: an endpoint
 * must require one of them.
 */
const SHARED_ISSUERS: ReadonlyMap<string, readonly string[]> = new Map([
  ["https://accounts.google.com", CLAIMS_OF_GOOGLE],
  ["accounts.google.com", CLAIMS_OF_GOOGLE],
  [
    "https://token.actions.githubusercontent.com",
    ["sub", "repository", "repository_id", "repository_owner", "repository_owner_id"],
  ],
  ["https://gitlab.com", ["sub", "project_path", "project_id", "namespace_path", "namespace_id"]],
]);

function claimProblems(parsed: EndpointFields): Problem[] {
  if (parsed.auth !== "jwt") return [];
  const { issuer, claims } = parsed;
  const isLacking = (names: readonly string[]) => !names.some((name) => claims[name] !== undefined);
  const lists = [issuer].flat().flatMap((each) => [SHARED_ISSUERS.get(each) ?? []]);
  const lacking = lists.find((names) => names.length > 0 && isLacking(names));
  if (lacking !== undefined)
    return [
      problem(
        "claims",
        `must have ${lacking.join(" or ")}: anyone can have a token of this issuer for this audience`,
      ),
    ];
  const needsVerified = lists.includes(CLAIMS_OF_GOOGLE) && isLacking(["sub"]);
  const { email_verified } = claims;
  if (email_verified === true || (email_verified === undefined && !needsVerified)) return [];
  return [
    problem(
      ["claims", "email_verified"],
      "must be true: otherwise, the issuer may not have verified the address",
    ),
  ];
}

/**
 * Returns whether the sender chooses the endpoint's secret and sends it in a header of this handshake. An operator then
 * learns the secret from `postern endpoints open`.
 */
export function takesSecretFrom(proof: EndpointFields["handshakes"][number]["proof"]): boolean {
  return typeof proof === "object" && "secret_header" in proof;
}

function urlProblems(parsed: EndpointFields): Problem[] {
  const { public_url } = parsed;
  const proof = proofOf(parsed);
  const schemes = schemesOf(proof) ?? [];
  const signsUrl = proof.by === "http-signature" || schemes.some(({ signed }) => signsPart(signed, "url"));
  if (signsUrl && public_url === undefined)
    return [
      problem("public_url", "is missing: this sender signs the URL; set it as it is written at the sender"),
    ];
  if (!signsUrl && public_url !== undefined)
    return [problem("public_url", "is not used: this sender does not sign the URL")];
  const signsForm = schemes.some(({ signed }) => signsPart(signed, "form"));
  if (signsForm && public_url?.endsWith("?") === true)
    return [
      problem(
        "public_url",
        "must not end with ?, which makes the start of the form ambiguous: remove it here and at the sender",
      ),
    ];
  return [];
}

function signsPart(signed = "{body}", kind: Part["kind"]): boolean {
  return toParts(signed).some((part) => part.kind === kind);
}

function deliveryIdProblems(parsed: EndpointFields): Problem[] {
  const { idempotency_header, delivery_id, idempotency_window_secs } = parsed;
  const problems: Problem[] = [];
  if (idempotency_header !== undefined && delivery_id !== undefined)
    problems.push(
      problem("idempotency_header", "must not be set together with delivery_id: set one of the two"),
    );
  const hasId = idempotency_header !== undefined || delivery_id !== undefined;
  if (idempotency_window_secs !== undefined && !hasId)
    problems.push(problem("idempotency_window_secs", "is not used: the endpoint has no delivery_id"));
  return problems;
}

/**
 * Reports templates that read credentials. The gateway puts the text of these templates into the queue, the log and the
 * runner's request, which must hold no credential.
 */
function readProblems(parsed: EndpointFields): Problem[] {
  const places = credentialPlaces(proofOf(parsed), parsed);
  const header = (name: string | undefined): Part[] =>
    name === undefined ? [] : [{ kind: "header", names: [name.toLowerCase()] }];
  const field = (pointer: string | undefined): Part[] =>
    pointer === undefined ? [] : [{ kind: "field", pointer: toPointer(pointer) }];
  const read: [key: string | string[], parts: () => readonly Part[]][] = [
    ["idempotency_header", () => header(parsed.idempotency_header)],
    ["delivery_id", () => toParts(parsed.delivery_id ?? "")],
    ["event_type", () => toParts(parsed.event_type ?? "")],
    [["route_by", "header"], () => header(parsed.route_by?.header)],
    [["route_by", "field"], () => field(parsed.route_by?.field)],
  ];
  return inEach(read, ([key, parts]) => {
    const what = parts()
      .map((part) => credentialRead(part, places))
      .find((found) => found !== undefined);
    return what === undefined ? [] : [problem(key, `must not read ${what}`)];
  });
}

/**
 * Headers that are never forwarded to the runner. Some describe the sender's connection or the original body, some are
 * secret. The runner trusts the others, because only a producer sets them.
 */
const NEVER_FORWARDED = [
  ...HOP_BY_HOP,
  "expect",
  ...["host", "content-length", "content-type", "content-encoding", "content-digest", "date"],
  ...["proxy-authenticate", "set-cookie"],
  ...["signature", "signature-input", "idempotency-key", "traceparent"],
];

function forwardedHeaders(parsed: EndpointFields): Problem[] {
  const { forward_headers } = parsed;
  const places = credentialPlaces(proofOf(parsed), parsed);
  const names = new Set<string>();
  return inEach(forward_headers, (written, index) => {
    const name = written.toLowerCase();
    const isRepeated = names.has(name);
    names.add(name);
    const path = ["forward_headers", index];
    if (places.headers.includes(name)) return [problem(path, "must not be the credential's header")];
    if (NEVER_FORWARDED.includes(name) || /^x-(?:webhook|x402)-/.test(name))
      return [problem(path, "is never forwarded")];
    return isRepeated ? [problem(path, "is listed twice")] : [];
  });
}

function forwardedQuery(parsed: EndpointFields): Problem[] {
  const isHandedOn = parsed.forward_query && credentialPlaces(proofOf(parsed), parsed).queries.length > 0;
  return isHandedOn ? [problem("forward_query", "must be false: the query contains the credential")] : [];
}

function tokenProblems({ handshakes, verify_token }: EndpointFields): Problem[] {
  const asksToken = handshakes.some(({ proof }) => typeof proof === "object" && "verify_token" in proof);
  if (asksToken && verify_token === undefined)
    return [problem("verify_token", "is missing: it verifies the sender's handshake")];
  if (!asksToken && verify_token !== undefined)
    return [problem("verify_token", "is not used: no handshake verifies it")];
  return [];
}

/**
 * Reports handshakes with a `form` unless deliveries have their credential in a header or the query. Before
 * the gateway reads the body, only such a credential shows that a request is a delivery, not a handshake with a `form`.
 */
function formProblems(parsed: EndpointFields): Problem[] {
  const proof = proofOf(parsed);
  if (proof.by !== "nothing" && proof.places.fields.length === 0) return [];
  const message = "is allowed only if deliveries have their credential in a header or the query";
  return inEach(parsed.handshakes, ({ form }, index) =>
    form === undefined ? [] : [problem(["handshakes", index, "form"], message)],
  );
}

function handshakeProblems(
  parsed: EndpointFields,
  { method, when, mac, proof }: EndpointFields["handshakes"][number],
  index: number,
): Problem[] {
  const problems: Problem[] = [];
  const at = (key: string) => ["handshakes", index, key];
  const schemes = schemesOf(proofOf(parsed)) ?? [];
  const isDelivery = (parsed.methods as readonly string[]).includes(method);
  if (isDelivery && Object.keys(when).length === 0)
    problems.push(problem(at("when"), "is missing: without it, every delivery would match this handshake"));
  if (mac === undefined) return problems;
  if (schemes[0] === undefined || !isHmac(schemes[0].algorithm))
    problems.push(problem(at("mac"), "is allowed only if deliveries have an HMAC signature"));
  // Without a credential, anyone can send this handshake, and gets the MAC of a text that they choose (HANDSHAKE_TEXT).
  // The MAC would also be the signature of a delivery that signs only this text. So deliveries must sign their body,
  // and the gateway refuses a body that is such a text.
  else if (proof !== "credential" && !schemes.every(({ signed }) => signsPart(signed, "body")))
    problems.push(
      problem(
        at("mac"),
        "is computed for unauthenticated requests, so it could sign a delivery: signed must contain {body}",
      ),
    );
  return problems;
}
