import { secretProblem } from "../senders/key.ts";
import { type Part, toParts, toPointer } from "../senders/template.ts";
import { isHmac } from "../senders/verifier.ts";
import { inEach, type Rule } from "./between-keys.ts";
import { credentialPlaces, credentialRead } from "./credential-places.ts";
import { type EndpointFields, schemesOf } from "./endpoint-fields.ts";
import { HOP_BY_HOP } from "./fields.ts";
import { type Problem, problem } from "./problem.ts";

/** The keys that every endpoint has, whoever its sender. */
type CommonFields = Pick<
  EndpointFields,
  "job_id" | "route_by" | "answer" | "respond" | "wait_secs" | "callback_url" | "callback_hosts"
>;

/** The rules that can be judged without the endpoint's sender. */
export const COMMON_RULES: readonly Rule<CommonFields>[] = [jobProblems, answerProblems, callbackProblems];

/** The rules between the keys of an endpoint. */
export const ENDPOINT_RULES: readonly Rule<EndpointFields>[] = [
  ...COMMON_RULES,
  secretProblems,
  credentialProblems,
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
  if (job_id === undefined && route_by === undefined) return [problem("job_id", "is missing")];
  if (job_id === undefined || route_by === undefined) return [];
  return [problem("route_by", "chooses the job, so job_id must not be there")];
}

function answerProblems({ answer: { status, body }, respond, wait_secs }: CommonFields): Problem[] {
  const problems: Problem[] = [];
  if (status === 204 && body !== undefined)
    problems.push(problem(["answer", "body"], "is not sent with status 204"));
  if (wait_secs !== undefined && respond !== "result")
    problems.push(problem("wait_secs", 'is not used: only with respond = "result" the sender waits'));
  return problems;
}

function callbackProblems({ callback_url, callback_hosts }: CommonFields): Problem[] {
  if (callback_url === undefined || callback_hosts === undefined) return [];
  return [problem("callback_hosts", "is not used: callback_url is told of every call")];
}

function credentialProblems(parsed: EndpointFields): Problem[] {
  const { fields } = credentialPlaces(parsed);
  const problems: Problem[] = [];
  if (parsed.auth === "token" && (parsed.token_query === undefined) === (parsed.token_field === undefined))
    problems.push(problem("auth", 'of "token" needs token_query or token_field, and not both'));
  if (parsed.keep_rejected_bodies && fields.length > 0)
    problems.push(problem("keep_rejected_bodies", "would keep the credential, which is in the body"));
  if ("signature_over" in parsed && parsed.signature_over === "decoded" && parsed.encoded_bodies === "refuse")
    problems.push(problem("signature_over", 'is not used: encoded_bodies = "refuse" decodes nothing'));
  return problems;
}

function secretProblems(parsed: EndpointFields): Problem[] {
  if (parsed.auth !== "signature") return [];
  const { secret, signature, handshakes } = parsed;
  const comesLater = handshakes.some(({ proof }) => takesSecretFrom(proof));
  if (secret === undefined) return comesLater ? [] : [problem("secret", "is missing")];
  return inEach(secret, (each, index) => {
    const message = secretProblem(each, signature);
    return message === undefined ? [] : [problem(["secret", index], message)];
  });
}

/** Whether a handshake brings the endpoint's secret (`postern endpoint open`). */
export function takesSecretFrom(proof: EndpointFields["handshakes"][number]["proof"]): boolean {
  return typeof proof === "object" && "secret_header" in proof;
}

function urlProblems(parsed: EndpointFields): Problem[] {
  const { public_url } = parsed;
  const signsUrl = (schemesOf(parsed) ?? []).some(({ signed }) => signs(signed, "url"));
  if (signsUrl && public_url === undefined)
    return [problem("public_url", "is missing: this sender signs the URL as it is written there")];
  if (!signsUrl && public_url !== undefined)
    return [problem("public_url", "is not used: this sender does not sign it")];
  const signsForm = (schemesOf(parsed) ?? []).some(({ signed }) => signs(signed, "form"));
  if (signsForm && public_url?.endsWith("?") === true)
    return [
      problem(
        "public_url",
        "ends with ?, behind which nobody can tell a query from the form: leave it out, here and at the sender",
      ),
    ];
  return [];
}

function signs(signed = "{body}", kind: Part["kind"]): boolean {
  return toParts(signed).some((part) => part.kind === kind);
}

function deliveryIdProblems(parsed: EndpointFields): Problem[] {
  const { idempotency_header, delivery_id, idempotency_window_secs } = parsed;
  const problems: Problem[] = [];
  if (idempotency_header !== undefined && delivery_id !== undefined)
    problems.push(
      problem("idempotency_header", "is another word for a delivery_id of one header: name one of them"),
    );
  const hasId = idempotency_header !== undefined || delivery_id !== undefined;
  if (idempotency_window_secs !== undefined && !hasId)
    problems.push(problem("idempotency_window_secs", "is not used: there is no delivery_id"));
  return problems;
}

/** What is read of a request reaches the queue, the log and the runner. No credential may go that way. */
function readProblems(parsed: EndpointFields): Problem[] {
  const places = credentialPlaces(parsed);
  const header = (name: string | undefined): Part[] =>
    name === undefined ? [] : [{ kind: "header", names: [name.toLowerCase()] }];
  const field = (pointer: string | undefined): Part[] =>
    pointer === undefined ? [] : [{ kind: "field", pointer: toPointer(pointer) }];
  const read: [key: string | string[], verb: string, parts: () => readonly Part[]][] = [
    ["idempotency_header", "is", () => header(parsed.idempotency_header)],
    ["delivery_id", "holds", () => toParts(parsed.delivery_id ?? "")],
    ["event_type", "holds", () => toParts(parsed.event_type ?? "")],
    [["route_by", "header"], "is", () => header(parsed.route_by?.header)],
    [["route_by", "field"], "is", () => field(parsed.route_by?.field)],
  ];
  return inEach(read, ([key, verb, parts]) => {
    const what = parts()
      .map((part) => credentialRead(part, places))
      .find((found) => found !== undefined);
    return what === undefined ? [] : [problem(key, `${verb} ${what}`)];
  });
}

/** Headers that are a request's own, a hop's, or one that the runner trusts. */
const NEVER_FORWARDED = [
  ...HOP_BY_HOP,
  "expect",
  ...["host", "content-length", "content-type", "content-encoding", "content-digest", "date"],
  ...["proxy-authenticate", "set-cookie"],
  ...["signature", "signature-input", "idempotency-key", "traceparent"],
];

function forwardedHeaders(parsed: EndpointFields): Problem[] {
  const { forward_headers } = parsed;
  const places = credentialPlaces(parsed);
  const names = new Set<string>();
  return inEach(forward_headers, (written, index) => {
    const name = written.toLowerCase();
    const isRepeated = names.has(name);
    names.add(name);
    const path = ["forward_headers", index];
    if (places.headers.includes(name)) return [problem(path, "is the header of the credential")];
    if (NEVER_FORWARDED.includes(name) || /^x-(?:webhook|x402)-/.test(name))
      return [problem(path, "is never forwarded")];
    return isRepeated ? [problem(path, "is there twice")] : [];
  });
}

function forwardedQuery(parsed: EndpointFields): Problem[] {
  const isHandedOn = parsed.forward_query && credentialPlaces(parsed).queries.length > 0;
  return isHandedOn ? [problem("forward_query", "would hand the credential on")] : [];
}

function tokenProblems({ handshakes, verify_token }: EndpointFields): Problem[] {
  const asksToken = handshakes.some(({ proof }) => typeof proof === "object" && "verify_token" in proof);
  if (asksToken && verify_token === undefined)
    return [problem("verify_token", "is missing: this sender proves its handshake with it")];
  if (!asksToken && verify_token !== undefined)
    return [problem("verify_token", "is not used: no handshake asks for it")];
  return [];
}

/** A form is read before the credential is looked for, of a request that has none: so a delivery must show its credential before. */
function formProblems(parsed: EndpointFields): Problem[] {
  const { auth, handshakes } = parsed;
  const { fields } = credentialPlaces(parsed);
  if (auth !== "none" && fields.length === 0) return [];
  const message = "is read only where deliveries have their credential in a header or the query";
  return inEach(handshakes, ({ form }, index) =>
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
  const schemes = schemesOf(parsed) ?? [];
  const isDelivery = (parsed.methods as readonly string[]).includes(method);
  if (isDelivery && Object.keys(when).length === 0)
    problems.push(problem(at("when"), "is missing: every delivery would be this handshake"));
  if (mac === undefined) return problems;
  if (schemes[0] === undefined || !isHmac(schemes[0].algorithm))
    problems.push(problem(at("mac"), "can be made only beside an HMAC signature"));
  // A body of the form of a challenge is refused (GIVEN_AWAY): that keeps these MACs from signing what holds the whole body.
  else if (proof !== "credential" && !schemes.every(({ signed }) => signs(signed, "body")))
    problems.push(
      problem(at("mac"), "is made for anybody, and could sign a delivery: signed must hold {body}"),
    );
  return problems;
}
