import type { IncomingMessage, ServerResponse } from "node:http";
import { credentialHeaders, schemesOf, secretsOf } from "../../shared/config/endpoint-fields.ts";
import type { EndpointToml } from "../../shared/config/endpoint-toml.ts";
import { readBody } from "../../shared/http/body.ts";
import type { BodyLease } from "../../shared/http/body-budget.ts";
import { CODINGS, codingUnsupported, contentCoding, decodeBody } from "../../shared/http/content-coding.ts";
import { headerBytes, onlyHeaderValue } from "../../shared/http/headers.ts";
import { addressKey } from "../../shared/http/ip/address.ts";
import { sameBytes } from "../../shared/platform/crypto/compare.ts";
import type { Secret } from "../../shared/platform/crypto/secret.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import { jsonSizeProblem } from "../../shared/platform/text/bounded-json.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import type { CredentialKind } from "../../shared/senders/advice.ts";
import type { Scheme } from "../../shared/senders/description.ts";
import { PRESETS } from "../../shared/senders/presets.ts";
import { needsPrivateKey } from "../../shared/senders/private-key.ts";
import { rejected } from "../../shared/senders/rejected.ts";
import { RequestValues, toParts } from "../../shared/senders/template.ts";
import { REJECTED_BODY_BYTES_MAX } from "../../shared/telemetry/rejected/entry.ts";
import type { CheckTurns } from "./check-turns.ts";
import { GIVEN_AWAY } from "./handshake.ts";
import { createSignatureCheck, placeOf, type SignatureProof } from "./signature.ts";

/** A request whose body is to be read. */
type Reading = {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  /** The client's. */
  readonly address: string;
  /** Set once the body is whole, proven or not. */
  received?: Buffer;
  /** Set as the body arrives, if the endpoint keeps the bodies that it refuses. */
  beginning?: Buffer;
};

/** The check of an endpoint's credential. */
export type Credential = {
  /**
   * Reads a request's body and proves the request: whatever needs no body is checked before it is read. Throws
   * `webhook.credential_rejected`, `request.encoding_unsupported`, `request.encoding_broken`, `request.too_large` and
   * `request.over_budget`.
   */
  readProven(reading: Reading, lease: BodyLease): Promise<RequestValues>;
  /** The challenge that goes with a 401 (RFC 9110, section 11.6.1). */
  readonly challenge: string;
  headers(req: IncomingMessage): CredentialHeaders;
};

/** The names of the headers with credentials, or the other places for them, that were wanted, and of the headers that came. */
export type CredentialHeaders = {
  wanted: readonly string[];
  came: readonly string[];
  kind: CredentialKind | undefined;
};

/** A credential, as far as it can be checked without the body: what remains, if anything does. */
type Check = (req: IncomingMessage) => SignatureProof | undefined;

/** A body that must be parsed before anything is proven has this limit: as objects it may take many times its bytes. */
const UNPROVEN_PARSED_BYTES_MAX = 1024 * 1024;

type Deps = { bodyLimitBytes: number; turns: CheckTurns; clock: Clock };

export function createCredential(endpoint: EndpointToml, { bodyLimitBytes, turns, clock }: Deps): Credential {
  const check = createCheck(endpoint, clock);
  const isParsed = schemesOf(endpoint)?.some((scheme) => readsJson(scheme) || signs("form", scheme)) === true;
  const bodyBytesMax = isParsed ? Math.min(bodyLimitBytes, UNPROVEN_PARSED_BYTES_MAX) : bodyLimitBytes;
  const places = (schemesOf(endpoint) ?? []).filter(({ header }) => header === undefined).map(placeOf);
  const wanted = [...new Set([...credentialHeaders(endpoint), ...headersBeside(endpoint), ...places])];
  const isDecodedFirst =
    endpoint.auth === "none" || ("signature_over" in endpoint && endpoint.signature_over === "decoded");

  async function readProven(reading: Reading, lease: BodyLease): Promise<RequestValues> {
    const { req, res } = reading;
    const proof = check(req);
    if (proof === undefined && endpoint.auth !== "none") lease.prove();
    const coding = acceptedCoding(req, endpoint);
    const early = isDecodedFirst ? undefined : proof;
    const onEnd = endpoint.keep_rejected_bodies ? undefined : early?.checkTaken;

    const onBytes = onBytesOf(reading, endpoint, early);
    const received = await readBody(req, res, bodyBytesMax, { lease, onBytes, onEnd });
    reading.received = received;
    const asReceived = new RequestValues(req, received);
    if (onEnd === undefined && early !== undefined) await checkWhole(reading, lease, early, asReceived);
    const values =
      coding === undefined
        ? asReceived
        : new RequestValues(req, await decodeReceived(received, coding, lease));
    if (isDecodedFirst && proof !== undefined) await checkWhole(reading, lease, proof, values);
    lease.prove();
    return values;
  }

  /** A digest that was computed while the body arrived is compared at once. */
  async function checkWhole(
    { res, address }: Reading,
    lease: BodyLease,
    proof: SignatureProof,
    values: RequestValues,
  ): Promise<void> {
    const check = () => proof.check(values);
    if (proof.checkTaken !== undefined && !isDecodedFirst) check();
    else await turns.run({ res, party: addressKey(address), lease, bytes: values.body.length }, check);
  }

  async function decodeReceived(received: Buffer, coding: string, lease: BodyLease): Promise<Buffer> {
    lease.reserve(bodyBytesMax);
    const body = await decodeBody(received, coding, bodyBytesMax);
    lease.arrived(received.length + body.length);
    return body;
  }

  function headers(req: IncomingMessage): CredentialHeaders {
    const names = req.rawHeaders.filter((_, at) => at % 2 === 0).map((name) => name.toLowerCase());
    const isOfCredential = (name: string) => wanted.includes(name) || KNOWN_HEADERS.has(name);
    const came = [...new Set(names)].filter(isOfCredential).sort();
    return { wanted, came, kind: kindOf(endpoint, came) };
  }

  return { readProven, challenge: challengeOf(endpoint), headers };
}

/** What becomes of the bytes of a body as they arrive: the proof takes them, and the beginning of a body that may be kept is copied. */
function onBytesOf(reading: Reading, endpoint: EndpointToml, proof: SignatureProof | undefined) {
  if (!endpoint.keep_rejected_bodies) return proof?.take;
  return (bytes: Buffer): void => {
    const { beginning = Buffer.alloc(0) } = reading;
    const lacks = REJECTED_BODY_BYTES_MAX - beginning.length;
    if (lacks > 0) reading.beginning = Buffer.concat([beginning, bytes.subarray(0, lacks)]);
    proof?.take(bytes);
  };
}

/** Whether the body's JSON must be parsed before its signature is known to hold. */
function readsJson(scheme: Scheme): boolean {
  return scheme.field !== undefined || signs("field", scheme);
}

function signs(kind: "field" | "form", { signed = "" }: Scheme): boolean {
  return toParts(signed).some((part) => part.kind === kind);
}

/** Whether the body's fields say what becomes of a request. */
function readsFields({ delivery_id, event_type, route_by, handshakes }: EndpointToml): boolean {
  const templates = JSON.stringify([delivery_id, event_type, handshakes]);
  return route_by?.field !== undefined || templates.includes("{body:/");
}

function createCheck(endpoint: EndpointToml, clock: Clock): Check {
  switch (endpoint.auth) {
    case "none": {
      const refuse = (problem: string) => AppError.public("request.malformed", problem);
      return () => (readsFields(endpoint) ? withBoundedJson(refuse) : undefined);
    }
    case "bearer":
      return (req) => requireSecret(bearerToken(req), endpoint.secret);
    case "basic":
      return (req) => requireSecret(basicPassword(req, endpoint.username), endpoint.secret);
    case "api-key":
      return (req) =>
        requireSecret(headerBytes(onlyCredential(req, endpoint.api_key_header)), endpoint.secret);
    case "token":
    case "hmac-sha256":
    case "signature":
      return createSchemesCheck(endpoint, clock);
  }
}

function createSchemesCheck(endpoint: EndpointToml, clock: Clock): Check {
  const schemes = schemesOf(endpoint) ?? [];
  const givesAway = endpoint.handshakes.some(({ mac, proof }) => mac !== undefined && proof !== "credential");
  const begin = createSignatureCheck(schemes, secretsOf(endpoint), {
    publicUrl: endpoint.public_url,
    clock,
    givenAway: givesAway ? GIVEN_AWAY : undefined,
  });
  if (!schemes.some(readsJson)) return begin;
  const refuse = (problem: string) => rejected("malformed", problem);
  return (req) => withBoundedJson(refuse, begin(req));
}

/** Refuses JSON that costs much to parse before the check, which parses it. */
function withBoundedJson(refuse: (problem: string) => AppError, proof?: SignatureProof): SignatureProof {
  return {
    take: (chunk) => proof?.take(chunk),
    checkTaken: undefined,
    check(values) {
      const problem = jsonSizeProblem(values.body);
      if (problem !== undefined) throw refuse(`the body ${problem}`);
      proof?.check(values);
    },
  };
}

/** RFC 6750: the scheme is case-insensitive, the token is not. */
function bearerToken(req: IncomingMessage): Buffer {
  const token = /^bearer +(\S.*)$/i.exec(onlyCredential(req, "authorization"))?.[1];
  if (token === undefined) throw rejected("malformed", "authorization must be Bearer and a token");
  return headerBytes(token);
}

/** RFC 7617. The user's name is no secret; the password is compared in constant time. */
function basicPassword(req: IncomingMessage, username: string): Buffer {
  const encoded = /^basic +([A-Za-z0-9+/]+={0,2})$/i.exec(onlyCredential(req, "authorization"))?.[1];
  if (encoded === undefined) throw rejected("malformed", "authorization must be Basic and base64");
  const credentials = Buffer.from(encoded, "base64");
  const user = Buffer.from(`${username}:`, "utf8");
  if (!credentials.subarray(0, user.length).equals(user))
    throw rejected("mismatch", "the username does not match");
  return credentials.subarray(user.length);
}

/** Compares every secret, also after a match, so that the time depends on none of them. */
function requireSecret(presented: Buffer, secrets: readonly Secret[]): undefined {
  let matches = false;
  for (const secret of secrets) {
    if (sameBytes(presented, secret.bytes())) matches = true;
  }
  if (!matches) throw rejected("mismatch");
}

function onlyCredential(req: IncomingMessage, name: string): string {
  const found = onlyHeaderValue(req, name);
  if ("problem" in found) throw rejected(found.problem, `header ${name}`);
  return found.value;
}

function acceptedCoding(req: IncomingMessage, { encoded_bodies }: EndpointToml): string | undefined {
  const coding = contentCoding(req);
  if (coding === undefined) return undefined;
  if (encoded_bodies !== "decode")
    throw codingUnsupported(coding, "this endpoint accepts no Content-Encoding");
  if (CODINGS.includes(coding)) return coding;
  throw codingUnsupported(coding, `Content-Encoding must be one of ${CODINGS.join(", ")}`);
}

/** Headers in which some sender puts a credential, so that a refusal can name what came instead. */
const KNOWN_HEADERS: ReadonlySet<string> = knownHeaders();

function knownHeaders(): Set<string> {
  const signed = Object.values(PRESETS).flatMap(({ endpoint }) => {
    const schemes = [endpoint.signature ?? []].flat();
    return [...schemes.map(({ header }) => header), endpoint.api_key_header].flatMap((name) => name ?? []);
  });
  const others = ["authorization", "x-api-key", "x-signature-256", "x-hub-signature", "x-webhook-signature"];
  return new Set([...signed, ...others].map((name) => name.toLowerCase()));
}

/** The headers without which a signature proves nothing. */
function headersBeside(endpoint: EndpointToml): string[] {
  return (schemesOf(endpoint) ?? []).flatMap(({ timestamp, require = {}, signed = "" }) => [
    ...[timestamp?.header ?? []].flat().map((name) => name.toLowerCase()),
    ...Object.keys(require).map((name) => name.toLowerCase()),
    ...toParts(signed).flatMap((part) => (part.kind === "header" ? part.names : [])),
  ]);
}

/** Of several schemes, the kind of the first whose header came. Undefined if the endpoint wants no credential. */
function kindOf(endpoint: EndpointToml, came: readonly string[]): CredentialKind | undefined {
  switch (endpoint.auth) {
    case "none":
      return undefined;
    case "bearer":
    case "basic":
    case "api-key":
      return endpoint.auth;
    case "token":
    case "hmac-sha256":
    case "signature": {
      const schemes = schemesOf(endpoint) ?? [];
      const hasCome = ({ header }: Scheme) =>
        [header ?? []].flat().some((name) => came.includes(name.toLowerCase()));
      const { algorithm = "equal" } = schemes.find(hasCome) ?? schemes[0] ?? {};
      if (algorithm === "equal") return "token";
      return needsPrivateKey(algorithm) ? "key-pair" : "digest";
    }
  }
}

function challengeOf(endpoint: EndpointToml): string {
  switch (endpoint.auth) {
    case "bearer":
      return 'Bearer realm="postern"';
    case "basic":
      return 'Basic realm="postern", charset="UTF-8"';
    case "api-key":
      return `ApiKey realm="postern", header="${endpoint.api_key_header}"`;
    case "token":
      return 'Token realm="postern"';
    case "signature":
      return 'Signature realm="postern"';
    case "hmac-sha256":
    case "none": // never refused, so never challenged
      return 'HMAC-SHA256 realm="postern"';
  }
}
