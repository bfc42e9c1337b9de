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

/** The answer to a request that sets an endpoint up. */
export type HandshakeAnswer = {
  status: number;
  headers: Readonly<Record<string, string>>;
  body: string;
  /** True if it needs no proof. */
  isForAnybody: boolean;
};

/** A request whose handshakes are looked for before its credential is. */
type Asked = { readonly req: IncomingMessage; readonly res: ServerResponse; readonly address: string };

type HandshakeToml = EndpointToml["handshakes"][number];

/**
 * What a keyed handshake answers with the MAC of. The MAC is made under the key that signs deliveries, so no delivery may be
 * of this form: then what a handshake gives away opens nothing.
 */
export const GIVEN_AWAY = /^[A-Za-z0-9._~+/=-]{0,1024}$/;

/** Echoed text is visible ASCII, and no more of it. */
const ECHOED = /^[!-~](?:[ -~]{0,1022}[!-~])?$/;

/** Such a form has one or two fields. */
const FORM_BYTES_MAX = 1024;

type Deps = { admission: Admission; takeSecret: TakeSecret };

/** The handshakes of an endpoint: requests that set it up at the sender. They are answered and never queued. */
export function createHandshakes(endpoint: EndpointToml, { admission, takeSecret }: Deps) {
  const handshakes = endpoint.handshakes.map((handshake) => ({ ...handshake, is: createIs(handshake) }));
  const beforeBody = handshakes.filter(({ proof }) => proof !== "credential");
  // A form under a good signature is a handshake too, and no delivery.
  const signed = handshakes.filter(({ proof, form }) => proof === "credential" || form !== undefined);
  const hasCredential = createHasCredential(endpoint);
  /** If a handshake could be a delivery, a credential in it must be right. */
  const needsNone = ({ proof, method }: HandshakeToml) =>
    proof === "none" && (endpoint.methods as readonly string[]).includes(method);

  /**
   * Answers a handshake that no credential proves; undefined if the request is none. Throws `webhook.handshake_refused` if
   * what proves it does not hold. Only a secret has to be kept, so the others are answered while no calls are taken.
   */
  async function answerUnsigned(asked: Asked, lease: BodyLease): Promise<HandshakeAnswer | undefined> {
    const { req, address } = asked;
    if (beforeBody.length === 0) return undefined;
    const values = new RequestValues(req);
    const handshake = beforeBody.find(
      (each) => each.is(req, values) && !(needsNone(each) && hasCredential(req, values)),
    );
    if (handshake === undefined) return undefined;
    const { form } = handshake;
    if (form !== undefined && !isForm(await readForm(asked, lease), form)) return undefined;
    await prove(handshake, values, address);
    return { ...answerOf(handshake, values), isForAnybody: handshake.proof === "none" };
  }

  /** Answers a handshake whose credential holds; undefined if the request is a delivery. */
  function answerSigned(req: IncomingMessage, values: RequestValues): HandshakeAnswer | undefined {
    const handshake = signed.find(
      ({ is, form }) => is(req, values) && (form === undefined || isForm(values.body, form)),
    );
    return handshake && { ...answerOf(handshake, values), isForAnybody: false };
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

  function answerOf(handshake: HandshakeToml, values: RequestValues): Omit<HandshakeAnswer, "isForAnybody"> {
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
    if (!GIVEN_AWAY.test(text)) throw refused("the challenge has the form of signed content");
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

/** Tells whether a request has a credential, right or wrong, in any place where this endpoint's requests have one. */
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

/** Tells whether a request is this handshake. */
function createIs({ method, when }: HandshakeToml) {
  const conditions = Object.entries(when).map(([template, wanted]) => ({ parts: toParts(template), wanted }));
  return (req: IncomingMessage, values: RequestValues): boolean =>
    req.method === method &&
    conditions.every(({ parts, wanted }) => {
      const found = fill(parts, values);
      return "value" in found && isWanted(found.value, wanted);
    });
}

/** A star at the end stands for any text. */
function isWanted(value: string, wanted: string): boolean {
  return wanted.endsWith("*") ? value.startsWith(wanted.slice(0, -1)) : value === wanted;
}

/** Reads a body whose head declares that it is small. Any other body stays unread, and counts as empty. */
async function readForm({ req, res }: Asked, lease: BodyLease): Promise<Buffer> {
  const { "content-length": length, "content-encoding": coding } = req.headers;
  const isSmall = length !== undefined && Number(length) <= FORM_BYTES_MAX && coding === undefined;
  return isSmall ? await readBody(req, res, FORM_BYTES_MAX, { lease }) : NOTHING;
}

const NOTHING = Buffer.alloc(0);

/** Whether a body consists of exactly these fields. One whose value is a star may be missing. */
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

/** A template filled with what the sender sent, capped and without control characters. */
function echo(template: string, values: RequestValues): string {
  const found = fill(toParts(template), values);
  if ("problem" in found) throw refused(`${found.what} is ${found.problem}`);
  if (!ECHOED.test(found.value)) throw refused("the challenge is too long, or is not visible ASCII");
  return found.value;
}

function refused(reason: string): AppError {
  return AppError.public("webhook.handshake_refused", reason);
}

/** The command is for the operator who reads the log, not for the sender. */
function notOpen(): AppError {
  const publicDetail = "the endpoint is not open for a new secret";
  return new AppError("webhook.handshake_refused", {
    reason: `${publicDetail}: run postern endpoints open`,
    publicDetail,
  });
}

/** It counts as a refused credential of its address. */
export class WrongVerifyToken extends AppError {
  constructor(parameter: string) {
    const reason = `the query parameter ${parameter} does not match verify_token`;
    super("webhook.handshake_refused", { reason, publicDetail: reason });
  }
}
