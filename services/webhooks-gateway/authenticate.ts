import type { IncomingMessage, ServerResponse } from "node:http";
import type { EndpointToml } from "../../shared/config/endpoint-toml.ts";
import { readBody } from "../../shared/http/body.ts";
import type { BodyLease } from "../../shared/http/body-budget.ts";
import { CODINGS, codingUnsupported, contentCoding, decodeBody } from "../../shared/http/content-coding.ts";
import { onlyHeaderValue } from "../../shared/http/headers.ts";
import { addressKey } from "../../shared/http/ip/address.ts";
import { sameBytes } from "../../shared/platform/crypto/compare.ts";
import type { Secret } from "../../shared/platform/crypto/secret.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import { jsonSizeProblem } from "../../shared/platform/text/bounded-json.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import { REJECTED_BODY_BYTES_MAX } from "../../shared/telemetry/rejected/entry.ts";
import type { CredentialKind } from "../../shared/webhook-auth/advice.ts";
import {
  AUTH_NAMES,
  describedProof,
  kindOf,
  type Proof,
  placesOf,
  type Signed,
  schemesOf,
} from "../../shared/webhook-auth/auth-modes.ts";
import { PRESETS } from "../../shared/webhook-auth/presets/presets.ts";
import { rejected } from "../../shared/webhook-auth/rejected.ts";
import type { Scheme } from "../../shared/webhook-auth/signature-scheme.ts";
import { RequestValues, toParts } from "../../shared/webhook-auth/template.ts";
import type { CheckTurns } from "./check-turns.ts";
import { GIVEN_AWAY } from "./handshake.ts";
import { createSignatureCheck, placeOf, type SignatureProof } from "./signature-check.ts";

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
export type Authentication = {
  /**
   * Reads a request's body and proves the request: whatever needs no body is checked before it is read. Throws
   * `webhook.credential_rejected`, `request.encoding_unsupported`, `request.encoding_broken`, `request.too_large` and
   * `request.over_budget`.
   */
  readProven(reading: Reading, lease: BodyLease): Promise<RequestValues>;
  headers(req: IncomingMessage): CredentialHeaders;
};

/** The names of the headers with credentials, or the other places for them, that were wanted, and of the headers that came. */
export type CredentialHeaders = {
  wanted: readonly string[];
  /** Whether one of `wanted` is enough. */
  isOneEnough: boolean;
  came: readonly string[];
  kind: CredentialKind | undefined;
};

/** The check that is left for the body, if there is one. */
type Rest = SignatureProof | undefined;

/** Checks a credential as far as it can without the body. It may wait, as for the sender's keys. */
type Check = (req: IncomingMessage) => Rest | Promise<Rest>;

/** A body that must be parsed before anything is proven has this limit: as objects it may take many times its bytes. */
const UNPROVEN_PARSED_BYTES_MAX = 1024 * 1024;

type Deps = { bodyLimitBytes: number; turns: CheckTurns; clock: Clock };

export function createAuthentication(
  endpoint: EndpointToml,
  { bodyLimitBytes, turns, clock }: Deps,
): Authentication {
  const { proof } = endpoint;
  const schemes = schemesOf(proof) ?? [];
  const check = createCheck(endpoint, clock);
  const isParsed = schemes.some((scheme) => readsJson(scheme) || signs("form", scheme));
  const bodyBytesMax = isParsed ? Math.min(bodyLimitBytes, UNPROVEN_PARSED_BYTES_MAX) : bodyLimitBytes;
  const places = schemes.filter(({ header }) => header === undefined).map(placeOf);
  const beside = headersBeside(schemes);
  const wanted = [...new Set([...placesOf(proof).headers, ...beside, ...places])];
  const isOneEnough = wanted.length > 1 && beside.length === 0;
  const isOpen = proof.by === "nothing";
  const isDecodedFirst = isOpen || (proof.by === "schemes" && proof.over === "decoded");

  async function readProven(reading: Reading, lease: BodyLease): Promise<RequestValues> {
    const { req, res } = reading;
    const rest = await check(req);
    if (rest === undefined && !isOpen) lease.prove();
    const coding = acceptedCoding(req, endpoint);
    const early = isDecodedFirst ? undefined : rest;
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
    if (isDecodedFirst && rest !== undefined) await checkWhole(reading, lease, rest, values);
    lease.prove();
    return values;
  }

  /** A digest that was computed while the body arrived is compared at once. */
  async function checkWhole(
    { res, address }: Reading,
    lease: BodyLease,
    rest: SignatureProof,
    values: RequestValues,
  ): Promise<void> {
    const check = () => rest.check(values);
    if (rest.checkTaken !== undefined && !isDecodedFirst) check();
    else await turns.run({ res, clientKey: addressKey(address), lease, bytes: values.body.length }, check);
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
    return { wanted, isOneEnough, came, kind: kindOf(proof, came) };
  }

  return { readProven, headers };
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

type CreateCheck<By extends Proof["by"]> = (
  proof: Extract<Proof, { by: By }>,
  endpoint: EndpointToml,
  clock: Clock,
) => Check;

/** How a request is checked for each kind of proof. */
const CHECKS: { readonly [By in Proof["by"]]: CreateCheck<By> } = {
  nothing(_, endpoint) {
    const refuse = (problem: string) => AppError.public("request.malformed", problem);
    return () => (readsFields(endpoint) ? withBoundedJson(refuse) : undefined);
  },
  secret({ header, read }, { secret }) {
    const name = header.toLowerCase();
    return (req) => requireSecret(read(onlyCredential(req, name)), secret);
  },
  schemes: createSchemesCheck,
};

function createCheck(endpoint: EndpointToml, clock: Clock): Check {
  const { proof } = endpoint;
  return (CHECKS[proof.by] as CreateCheck<Proof["by"]>)(proof, endpoint, clock);
}

function createSchemesCheck({ schemes }: Signed, endpoint: EndpointToml, clock: Clock): Check {
  const givesAway = endpoint.handshakes.some(({ mac, proof }) => mac !== undefined && proof !== "credential");
  const begin = createSignatureCheck(schemes, endpoint.secret, {
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
  // An endpoint with `signature` names its own headers.
  const modes = AUTH_NAMES.filter((auth) => auth !== "signature").map((auth) => ({ auth }));
  const described = [...Object.values(PRESETS).map(({ endpoint }) => endpoint), ...modes];
  return new Set(described.flatMap((each) => placesOf(describedProof(each)).headers));
}

/** The headers without which a signature proves nothing. */
function headersBeside(schemes: readonly Scheme[]): string[] {
  return schemes.flatMap(({ timestamp, require = {}, signed = "" }) => [
    ...[timestamp?.header ?? []].flat().map((name) => name.toLowerCase()),
    ...Object.keys(require).map((name) => name.toLowerCase()),
    ...toParts(signed).flatMap((part) => (part.kind === "header" ? part.names : [])),
  ]);
}
