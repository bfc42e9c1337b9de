import type { IncomingMessage, ServerResponse } from "node:http";
import { credentialPlaces } from "../../shared/config/credential-places.ts";
import type { EndpointToml } from "../../shared/config/endpoint-toml.ts";
import { readBody } from "../../shared/http/body.ts";
import type { BodyLease } from "../../shared/http/body-budget.ts";
import { headerValues } from "../../shared/http/headers.ts";
import type { Admission } from "../../shared/ingress/admission.ts";
import type { TakeSecret } from "../../shared/ingress/opened-endpoints.ts";
import { sameBytes } from "../../shared/platform/crypto/compare.ts";
import type { Secret } from "../../shared/platform/crypto/secret.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import { schemesOf } from "../../shared/webhook-auth/auth-modes.ts";
import { keysFor } from "../../shared/webhook-auth/key.ts";
import { fill, RequestValues, toParts } from "../../shared/webhook-auth/template.ts";
import { macOf } from "../../shared/webhook-auth/verifier.ts";

export type HandshakeAnswer = {
  status: number;
  headers: Readonly<Record<string, string>>;
  body: string;
  /** True if the handshake needs no proof, so that any client can get this answer. */
  needsNoProof: boolean;
};

/** A request that may be a handshake, before its credential is checked. */
type Incoming = {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly address: string;
};

type HandshakeToml = EndpointToml["handshakes"][number];

/**
 * Form of a challenge: a text that some senders send in a handshake, and whose MAC they expect in the answer. The MAC
 * uses the same key as the signatures of deliveries. So a stranger can send a body as a challenge, and gets its
 * signature. A delivery whose body has this form is therefore refused.
 */
export const HANDSHAKE_TEXT = /^[A-Za-z0-9._~+/=-]{0,1024}$/;

/** Form of the request's text that a handshake's answer may repeat: visible ASCII, with spaces only inside. */
const ECHOED = /^[!-~](?:[ -~]{0,1022}[!-~])?$/;

/** Largest form body of a handshake. Such a form has one or two fields. */
const FORM_BYTES_MAX = 1024;

type Deps = {
  admission: Admission;
  takeSecret: TakeSecret;
  /**
   * Does what a signed handshake asks for before it is answered: confirms a subscription at Amazon SNS. Undefined for
   * endpoints of other senders.
   */
  confirm?: ((values: RequestValues) => Promise<void>) | undefined;
};

/**
 * Handles an endpoint's handshakes: requests with which a sender checks the endpoint. They are answered and never
 * queued.
 */
export function createHandshakes(endpoint: EndpointToml, { admission, takeSecret, confirm }: Deps) {
  const handshakes = endpoint.handshakes.map((each) => ({ ...each, matches: createMatches(each) }));
  const beforeBody = handshakes.filter(({ proof }) => proof !== "credential");
  // A handshake with a `form` needs no signature. If such a request has one, it is checked like a delivery
  // (`couldBeDelivery`). This list recognises it afterwards, so that it is not queued.
  const signed = handshakes.filter(({ proof, form }) => proof === "credential" || form !== undefined);
  const hasCredential = createHasCredential(endpoint);
  /**
   * Returns whether a request that looks like this handshake could be a delivery. It could if the handshake needs no
   * proof and has the method of a delivery. If such a request has a credential, it is checked like a delivery.
   */
  const couldBeDelivery = ({ proof, method }: HandshakeToml) =>
    proof === "none" && (endpoint.methods as readonly string[]).includes(method);

  /**
   * Answers a handshake that does not need the credential of a delivery. Returns undefined if the request is not such a
   * handshake. Throws `webhook.handshake_refused` if the handshake's proof is wrong. Only a handshake that brings a new
   * secret writes to Redis, and needs a gateway that accepts calls. All other handshakes are answered at any time.
   */
  async function answerUnsigned(request: Incoming, lease: BodyLease): Promise<HandshakeAnswer | undefined> {
    const { req, address } = request;
    if (beforeBody.length === 0) return undefined;
    const values = new RequestValues(req);
    const handshake = beforeBody.find(
      (each) => each.matches(req, values) && !(couldBeDelivery(each) && hasCredential(req, values)),
    );
    if (handshake === undefined) return undefined;
    const { form } = handshake;
    if (form !== undefined && !isForm(await readForm(request, lease), form)) return undefined;
    await prove(handshake, values, address);
    return { ...answerOf(handshake, values), needsNoProof: handshake.proof === "none" };
  }

  /** Answers a handshake whose credential is verified. Returns undefined if the request is a delivery. */
  async function answerSigned(req: IncomingMessage, values: RequestValues) {
    const handshake = signed.find(
      ({ matches, form }) => matches(req, values) && (form === undefined || isForm(values.body, form)),
    );
    if (handshake === undefined) return undefined;
    await confirm?.(values);
    return { ...answerOf(handshake, values), needsNoProof: false } satisfies HandshakeAnswer;
  }

  async function prove({ proof }: HandshakeToml, values: RequestValues, address: string): Promise<void> {
    if (typeof proof !== "object") return;
    if ("verify_token" in proof) {
      const token = values.query(proof.verify_token);
      const wanted = endpoint.verify_token as Secret;
      const holds = "value" in token && sameBytes(Buffer.from(token.value, "utf8"), wanted.bytes());
      if (!holds) throw new WrongVerifyToken(proof.verify_token);
      return;
    }
    admission.assertOpen();
    const secret = values.header([proof.secret_header.toLowerCase()]);
    if ("problem" in secret || !(await takeSecret(endpoint.path, secret.value, address))) throw notOpen();
  }

  function answerOf(handshake: HandshakeToml, values: RequestValues): Omit<HandshakeAnswer, "needsNoProof"> {
    const { status, content_type, json, body } = handshake;
    const headers: Record<string, string> = {};
    if (content_type !== undefined) headers["Content-Type"] = content_type;
    else if (json !== undefined) headers["Content-Type"] = "application/json";
    else if (body !== undefined) headers["Content-Type"] = "text/plain; charset=utf-8";
    for (const [name, text] of Object.entries(handshake.headers)) headers[name] = echo(text, values);
    if (json === undefined) return { status, headers, body: body === undefined ? "" : echo(body, values) };
    const members = Object.entries(json).map(([name, value]) => {
      if (typeof value === "number") return [name, value];
      return [name, value === "{mac}" ? answeredMac(handshake, values) : echo(value, values)];
    });
    return { status, headers, body: JSON.stringify(Object.fromEntries(members)) };
  }

  function answeredMac({ mac }: HandshakeToml, values: RequestValues): string {
    const text = echo(mac?.of ?? "", values);
    if (!HANDSHAKE_TEXT.test(text))
      throw refused("the challenge must have at most 1024 letters, digits and ._~+/=-");
    const schemes = schemesOf(endpoint.proof) ?? [];
    const [scheme] = schemes;
    const [key] = keysFor(schemes, endpoint.secret)[0] ?? [];
    if (scheme === undefined || key === undefined) throw refused("the endpoint has no secret");
    const digest = macOf(scheme.algorithm, key, Buffer.from(text, "latin1"));
    return `${mac?.prefix ?? ""}${digest.toString(mac?.encoding)}`;
  }

  return { answerUnsigned, answerSigned };
}

export type Handshakes = ReturnType<typeof createHandshakes>;

/**
 * Returns a function that tells whether a request has a credential, right or wrong, in a header or query parameter in
 * which the endpoint expects one.
 */
function createHasCredential(endpoint: EndpointToml) {
  const { headers, queries } = credentialPlaces(endpoint.proof, endpoint);
  return (req: IncomingMessage, values: RequestValues): boolean => {
    const founds = queries.map((name) => values.query(name));
    return (
      headers.some((name) => headerValues(req, name).length > 0) ||
      founds.some((found) => !("problem" in found && found.problem === "missing"))
    );
  };
}

/** Returns a function that tells whether a request is this handshake. */
function createMatches({ method, when }: HandshakeToml) {
  const conditions = Object.entries(when).map(([template, wanted]) => ({ parts: toParts(template), wanted }));
  return (req: IncomingMessage, values: RequestValues): boolean =>
    req.method === method &&
    conditions.every(({ parts, wanted }) => {
      const found = fill(parts, values);
      return "value" in found && isWanted(found.value, wanted);
    });
}

/** Compares a value with the wanted text. If `wanted` ends with a star, only the text before the star must match. */
function isWanted(value: string, wanted: string): boolean {
  return wanted.endsWith("*") ? value.startsWith(wanted.slice(0, -1)) : value === wanted;
}

/**
 * Reads the body if its Content-Length is small. Any other body stays unread and counts as empty, because it cannot be
 * the form of a handshake.
 */
async function readForm({ req, res }: Incoming, lease: BodyLease): Promise<Buffer> {
  const { "content-length": length, "content-encoding": coding } = req.headers;
  const isSmall = length !== undefined && Number(length) <= FORM_BYTES_MAX && coding === undefined;
  return isSmall ? await readBody(req, res, FORM_BYTES_MAX, { lease }) : NOTHING;
}

const NOTHING = Buffer.alloc(0);

/** Returns whether a body consists of exactly these fields. A field whose wanted value is a star may be missing. */
function isForm(body: Buffer, wanted: Readonly<Record<string, string>>): boolean {
  if (body.length > FORM_BYTES_MAX) return false;
  const fields = [...new URLSearchParams(body.toString("utf8"))];
  const named = new Map(fields);
  return (
    named.size === fields.length &&
    fields.every(([name]) => Object.hasOwn(wanted, name)) &&
    Object.entries(wanted).every(([name, value]) => value === "*" || named.get(name) === value)
  );
}

/** Fills a template with values of the request. Throws if the text is too long or is not visible ASCII. */
function echo(template: string, values: RequestValues): string {
  const found = fill(toParts(template), values);
  if ("problem" in found) throw refused(`${found.what} is ${found.problem}`);
  if (!ECHOED.test(found.value)) throw refused("the challenge is too long, or is not visible ASCII");
  return found.value;
}

function refused(reason: string): AppError {
  return AppError.public("webhook.handshake_refused", reason);
}

/**
 * Creates the error for a handshake that brings a new secret while no operator has opened the endpoint for one. Only
 * the reason in the log names the command that opens it, because the sender cannot run that command.
 */
function notOpen(): AppError {
  const publicDetail = "the endpoint is not open for a new secret";
  return new AppError("webhook.handshake_refused", {
    reason: `${publicDetail}: run postern endpoints open`,
    publicDetail,
  });
}

/**
 * Refusal of a wrong verify token. It counts towards the limit on wrong credentials of the client's address
 * (refuse.ts).
 */
export class WrongVerifyToken extends AppError {
  constructor(parameter: string) {
    const reason = `the query parameter ${parameter} does not match verify_token`;
    super("webhook.handshake_refused", { reason, publicDetail: reason });
  }
}
