import type { IncomingMessage, ServerResponse } from "node:http";
import type { EndpointToml } from "../../shared/config/endpoint-toml.ts";
import { readBody } from "../../shared/http/body.ts";
import type { BodyLease } from "../../shared/http/body-budget.ts";
import { CODINGS, codingUnsupported, contentCoding, decodeBody } from "../../shared/http/content-coding.ts";
import { addressKey } from "../../shared/http/ip/address.ts";
import { sameBytes } from "../../shared/platform/crypto/compare.ts";
import type { Secret } from "../../shared/platform/crypto/secret.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import { jsonSizeProblem } from "../../shared/platform/text/bounded-json.ts";
import { REJECTED_BODY_BYTES_MAX } from "../../shared/telemetry/rejected/entry.ts";
import type { CredentialKind } from "../../shared/webhook-auth/advice.ts";
import {
  AUTH_NAMES,
  describedProof,
  kindOf,
  type Proof,
  type Signed,
  schemesOf,
} from "../../shared/webhook-auth/auth-modes.ts";
import { PRESETS } from "../../shared/webhook-auth/presets/presets.ts";
import { needHeader, rejected } from "../../shared/webhook-auth/rejected.ts";
import type { Scheme } from "../../shared/webhook-auth/signature-scheme.ts";
import { RequestValues, toParts } from "../../shared/webhook-auth/template.ts";
import type { Check, CheckDeps } from "./check.ts";
import type { CheckScheduler } from "./check-scheduler.ts";
import { HANDSHAKE_TEXT } from "./handshake.ts";
import { createHttpSignatureCheck } from "./http-signature-check.ts";
import { createJwtCheck } from "./jwt-check.ts";
import { createPayPalCheck } from "./paypal-check.ts";
import { createSignatureCheck, type SignatureProof } from "./signature-check.ts";
import { createSnsCheck } from "./sns-check.ts";

/** A request whose body is being read and checked. */
type Reading = {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  /** Client address. */
  readonly address: string;
  /**
   * The whole body as received. It is set before the credential is checked, so that a refusal can be recorded with it.
   */
  received?: Buffer;
  /** First bytes of the body, set while it arrives, if the endpoint keeps the bodies of refused requests. */
  beginning?: Buffer;
};

/** Checks the credential of an endpoint's requests. */
export type Authentication = {
  /**
   * Reads a request's body and checks its credential. Checks that need only the headers run first, so that the body of
   * a request that they refuse is never read. Throws `webhook.credential_rejected`, `webhook.keys_unavailable`,
   * `request.encoding_unsupported`, `request.encoding_broken`, `request.too_large` and `request.over_budget`.
   */
  readVerified(reading: Reading, lease: BodyLease): Promise<RequestValues>;
  headers(req: IncomingMessage): CredentialHeaders;
};

/**
 * Credentials that the endpoint expects and those that a request has, for the answer to a refused request. `wanted`
 * lists the expected places: headers, query parameters and fields of the body. `came` lists the credential headers that
 * the request has.
 */
export type CredentialHeaders = {
  wanted: readonly string[];
  /** True if a credential in one of the `wanted` places suffices. */
  isOneEnough: boolean;
  came: readonly string[];
  kind: CredentialKind | undefined;
};

/**
 * Limit on a body that must be parsed before its credential is checked, because the signature is in the body or covers
 * parts of it. A stranger can send such a body, and its parsed objects may take many times its bytes in memory.
 */
const UNVERIFIED_PARSED_BYTES_MAX = 1024 * 1024;

type Deps = CheckDeps & { bodyLimitBytes: number; scheduler: CheckScheduler };

export function createAuthentication(
  endpoint: EndpointToml,
  { bodyLimitBytes, scheduler, ...deps }: Deps,
): Authentication {
  const { proof } = endpoint;
  const schemes = schemesOf(proof) ?? [];
  const check = createCheck(endpoint, deps);
  const { headers: credentialHeaders, queries, fields } = proof.places;
  const isParsed = fields.length > 0 || schemes.some((scheme) => readsJson(scheme) || signs("form", scheme));
  const bodyBytesMax = isParsed ? Math.min(bodyLimitBytes, UNVERIFIED_PARSED_BYTES_MAX) : bodyLimitBytes;
  const places = [
    ...queries.map((name) => `query parameter ${name}`),
    ...fields.map((pointer) => `field /${pointer.join("/")}`),
  ];
  const requiredHeaders = requiredHeadersOf(proof);
  const wanted = [...new Set([...credentialHeaders, ...requiredHeaders, ...places])];
  const isOneEnough = wanted.length > 1 && requiredHeaders.length === 0;
  const isOpen = proof.by === "nothing";
  const isDecodedFirst = isOpen || (proof.by === "schemes" && proof.over === "decoded");

  async function readVerified(reading: Reading, lease: BodyLease): Promise<RequestValues> {
    const { req, res } = reading;
    const bodyCheck = await check(req, reading.address);
    if (bodyCheck === undefined && !isOpen) lease.markVerified();
    const coding = acceptedCoding(req, endpoint);
    const early = isDecodedFirst ? undefined : bodyCheck;
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
    if (isDecodedFirst && bodyCheck !== undefined) await checkWhole(reading, lease, bodyCheck, values);
    lease.markVerified();
    return values;
  }

  /**
   * Checks the credential once the whole body has arrived. If the check has hashed the body while it arrived, only a
   * cheap comparison remains, which runs at once. Otherwise the scheduler decides when the check runs, because it must
   * process the whole body.
   */
  async function checkWhole(
    { res, address }: Reading,
    lease: BodyLease,
    bodyCheck: SignatureProof,
    values: RequestValues,
  ): Promise<void> {
    const check = () => bodyCheck.check(values);
    if (bodyCheck.checkTaken !== undefined && !isDecodedFirst) return void check();
    const pending = { res, clientKey: addressKey(address), lease, bytes: values.body.length };
    const fetchRest = await scheduler.run(pending, check);
    if (fetchRest !== undefined) await scheduler.run(pending, await whileCuttable(lease, fetchRest()));
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

  return { readVerified, headers };
}

/**
 * Waits while a check fetches something, such as a certificate. During the wait, the body budget may refuse the request
 * to free the memory of its body. If the fetch fails, resolves with a function that throws the error. The caller passes
 * this function to the scheduler, so that the scheduler counts the request as refused, with the time that its check has
 * used.
 */
function whileCuttable(lease: BodyLease, fetching: Promise<() => void>): Promise<() => void> {
  return new Promise((resolve, reject) => {
    const endWait = lease.wait(reject);
    const refuse = (reason: unknown) => () => {
      throw reason;
    };
    void fetching.catch(refuse).then(resolve).finally(endWait);
  });
}

/**
 * Returns a function that passes each arriving chunk of the body to the check, which hashes it. If the endpoint keeps
 * the bodies of refused requests for operators, the function also copies the first bytes.
 */
function onBytesOf(reading: Reading, endpoint: EndpointToml, proof: SignatureProof | undefined) {
  if (!endpoint.keep_rejected_bodies) return proof?.take;
  return (bytes: Buffer): void => {
    const { beginning = Buffer.alloc(0) } = reading;
    const lacks = REJECTED_BODY_BYTES_MAX - beginning.length;
    if (lacks > 0) reading.beginning = Buffer.concat([beginning, bytes.subarray(0, lacks)]);
    proof?.take(bytes);
  };
}

/** Returns whether the check must parse the body as JSON to find the signature or the signed values. */
function readsJson(scheme: Scheme): boolean {
  return scheme.field !== undefined || signs("field", scheme);
}

function signs(kind: "field" | "form", { signed = "" }: Scheme): boolean {
  return toParts(signed).some((part) => part.kind === kind);
}

/**
 * Returns whether the endpoint reads fields of the body for the delivery id, the event type, the job or the handshakes.
 */
function readsFields({ delivery_id, event_type, route_by, handshakes }: EndpointToml): boolean {
  const templates = JSON.stringify([delivery_id, event_type, handshakes]);
  return route_by?.field !== undefined || /\{(?:body|cloudevent):/.test(templates);
}

type CreateCheck<By extends Proof["by"]> = (
  proof: Extract<Proof, { by: By }>,
  endpoint: EndpointToml,
  deps: CheckDeps,
) => Check;

/** Creators of the checks, by kind of proof. */
const CHECKS: { readonly [By in Proof["by"]]: CreateCheck<By> } = {
  nothing(_, endpoint) {
    const refuse = (problem: string) => AppError.public("request.malformed", problem);
    return () => (readsFields(endpoint) ? withBoundedJson(refuse) : undefined);
  },
  secret({ header, read }, { secret }) {
    const name = header.toLowerCase();
    return (req) => requireSecret(read(needHeader(req, name)), secret);
  },
  schemes: createSchemesCheck,
  jwt: createJwtCheck,
  "http-signature": createHttpSignatureCheck,
  "aws-sns": createSnsCheck,
  paypal: createPayPalCheck,
};

function createCheck(endpoint: EndpointToml, deps: CheckDeps): Check {
  const { proof } = endpoint;
  return (CHECKS[proof.by] as CreateCheck<Proof["by"]>)(proof, endpoint, deps);
}

function createSchemesCheck({ schemes }: Signed, endpoint: EndpointToml, { clock }: CheckDeps): Check {
  const returnsMac = endpoint.handshakes.some(
    ({ mac, proof }) => mac !== undefined && proof !== "credential",
  );
  const begin = createSignatureCheck(schemes, endpoint.secret, {
    publicUrl: endpoint.public_url,
    clock,
    handshakeText: returnsMac ? HANDSHAKE_TEXT : undefined,
  });
  if (!schemes.some(readsJson)) return begin;
  const refuse = (problem: string) => rejected("malformed", problem);
  return (req) => withBoundedJson(refuse, begin(req));
}

/** Wraps a check that parses the body as JSON. The wrapped check first refuses JSON that is expensive to parse. */
function withBoundedJson(refuse: (problem: string) => AppError, proof?: SignatureProof): SignatureProof {
  return {
    take: (chunk) => proof?.take(chunk),
    checkTaken: undefined,
    check(values) {
      const problem = jsonSizeProblem(values.body);
      if (problem !== undefined) throw refuse(`the body ${problem}`);
      return proof?.check(values);
    },
  };
}

/** Compares every secret, even after a match, so that the time does not show which one matched. */
function requireSecret(presented: Buffer, secrets: readonly Secret[]): undefined {
  let matches = false;
  for (const secret of secrets) {
    if (sameBytes(presented, secret.bytes())) matches = true;
  }
  if (!matches) throw rejected("mismatch");
}

function acceptedCoding(req: IncomingMessage, { encoded_bodies }: EndpointToml): string | undefined {
  const coding = contentCoding(req);
  if (coding === undefined) return undefined;
  if (encoded_bodies !== "decode")
    throw codingUnsupported(coding, [], "this endpoint accepts no Content-Encoding");
  if (CODINGS.includes(coding)) return coding;
  throw codingUnsupported(coding, CODINGS, `Content-Encoding must be one of ${CODINGS.join(", ")}`);
}

/**
 * Headers in which any known sender puts a credential. If a credential is refused, the answer lists those that the
 * request has. This shows, for example, that the endpoint is configured for another sender.
 */
const KNOWN_HEADERS: ReadonlySet<string> = knownHeaders();

function knownHeaders(): Set<string> {
  // The auth mode `signature` is left out, because its endpoints configure their own headers. The mode for HTTP
  // signatures needs an algorithm. Any will do, because HTTP signatures of all algorithms use the same headers.
  const http_signature = { algorithm: "ed25519" };
  const modes = AUTH_NAMES.filter((auth) => auth !== "signature").map((auth) => ({ auth, http_signature }));
  const described = [...Object.values(PRESETS).map(({ endpoint }) => endpoint), ...modes];
  return new Set(described.flatMap((each) => describedProof(each).places.headers));
}

/** Headers that a request needs besides the signature itself, for example the time of signing. */
function requiredHeadersOf(proof: Proof): string[] {
  if (proof.by === "http-signature") return ["content-digest"];
  return (schemesOf(proof) ?? []).flatMap(({ timestamp, require = {}, signed = "" }) => [
    ...[timestamp?.header ?? []].flat().map((name) => name.toLowerCase()),
    ...Object.keys(require).map((name) => name.toLowerCase()),
    ...toParts(signed).flatMap((part) => (part.kind === "header" ? part.names : [])),
  ]);
}
