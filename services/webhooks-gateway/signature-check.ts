import type { KeyObject } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { headerValues } from "../../shared/http/headers.ts";
import { sha256Hex } from "../../shared/platform/crypto/compare.ts";
import type { Secret } from "../../shared/platform/crypto/secret.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import { keysFor } from "../../shared/webhook-auth/key.ts";
import { need, needAll, reasonOf, rejected, wellFormed } from "../../shared/webhook-auth/rejected.ts";
import { formWanted, parseSent, type Sent } from "../../shared/webhook-auth/sent-signature.ts";
import type { Scheme } from "../../shared/webhook-auth/signature-scheme.ts";
import { type Head, Message } from "../../shared/webhook-auth/signed-message.ts";
import { type Lookup, RequestValues, toPointer } from "../../shared/webhook-auth/template.ts";
import { messageVerifier, some, streamVerifier, type Verifier } from "../../shared/webhook-auth/verifier.ts";
import { checkTime, timeInHead } from "./signature-timestamp.ts";

/** Part of a signature check that needs the body. */
export type SignatureProof = {
  /** Receives the body's bytes as they arrive. */
  take(chunk: Buffer): void;
  /**
   * Does the same as `check`, from the bytes that `take` received. Call it after the last byte. Undefined if the check
   * needs the whole body at once.
   */
  checkTaken: (() => void) | undefined;
  /**
   * Throws `webhook.credential_rejected` unless the signature covers the request's body. It gets the body from
   * `values`, so it does not matter whether `take` has received it. If the check must first fetch something, returns
   * the function that fetches it. The request is verified only once the rest of the check has succeeded too.
   */
  check(values: RequestValues): FetchRest | undefined;
};

/** Fetches what a check lacks, such as a certificate, and resolves with the rest of the check. */
export type FetchRest = () => Promise<() => void>;

type Context = {
  /** URL of the endpoint as the operator has entered it at the sender, for schemes whose signature covers the URL. */
  publicUrl?: string | undefined;
  clock: Clock;
  /**
   * Form of the challenges for which a handshake returns a MAC to any client. A delivery whose body has this form is
   * refused, because a stranger could have got its signature by such a handshake.
   */
  handshakeText?: RegExp | undefined;
};

export type SignatureCheck = (req: IncomingMessage) => SignatureProof;

/**
 * Creates the check of signatures. A scheme describes one kind of signature: where the request has it, and what it
 * covers. If a request has signatures in several places, only the first of these places in the schemes' order counts. A
 * valid signature in another place does not help. At that place, one valid signature by any scheme that has a key
 * suffices. All checks that need only the headers run before the body is read. Throws `webhook.credential_rejected`.
 */
export function createSignatureCheck(
  schemes: readonly Scheme[],
  secrets: readonly Secret[],
  context: Context,
): SignatureCheck {
  const keys = keysFor(schemes, secrets);
  const [only, ...more] = schemes.map((scheme, index) => createReader(scheme, keys[index] ?? [], context));
  if (only === undefined) throw new TypeError("a signature needs a scheme");
  if (more.length === 0) return only.begin;

  const readers = [only, ...more];
  const places = readers.map(({ place }) => place).join(" or ");
  return (req) => {
    const first = readers.find((reader) => reader.isIn(req));
    if (first === undefined) throw rejected("missing", places);
    const ofPlace = readers.filter(({ place }) => place === first.place);
    const usable = ofPlace.filter(({ hasKey }) => hasKey);
    return usable.length > 1 ? beginAny(usable, req) : (usable[0] ?? first).begin(req);
  };
}

/**
 * Begins the checks by all these schemes, except those whose check already fails for the headers. One check must
 * succeed with the body.
 */
function beginAny(readers: readonly Reader[], req: IncomingMessage): SignatureProof {
  const begun = readers.map((reader) => outcomeOf(() => reader.begin(req)));
  const proofs = begun.flatMap((outcome) => (outcome instanceof AppError ? [] : [outcome]));
  if (proofs.length === 0) throw mostUseful(begun.filter((outcome) => outcome instanceof AppError));
  const ends = proofs.flatMap(({ checkTaken }) => checkTaken ?? []);
  return {
    take(chunk) {
      for (const proof of proofs) proof.take(chunk);
    },
    checkTaken: ends.length < proofs.length ? undefined : () => requireAny(ends),
    check: (values) => requireAny(proofs.map((proof) => () => proof.check(values))),
  };
}

/** Runs every check, even after one succeeds, so that the time does not show which one did. */
function requireAny(checks: readonly (() => unknown)[]): undefined {
  const refusals = checks.map(outcomeOf).filter((outcome) => outcome instanceof AppError);
  if (refusals.length === checks.length) throw mostUseful(refusals);
}

/** Returns the result of a step, or the error with which the step refuses the request. */
export function outcomeOf<Result>(step: () => Result): Result | AppError {
  try {
    return step();
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
}

/**
 * Returns the refusal that helps most to find the fault: the first one that is not `malformed`. Schemes may be versions
 * of one signature. A signature of one version is always malformed for the others, which says nothing about the fault.
 */
export function mostUseful(refusals: readonly AppError[]): AppError {
  const [first = rejected("mismatch")] = refusals;
  return refusals.find(({ message }) => reasonOf(message) !== "malformed") ?? first;
}

type Reader = ReturnType<typeof createReader>;

function isDefined(value: unknown): boolean {
  return value !== undefined;
}

function createReader(
  scheme: Scheme,
  keys: readonly KeyObject[],
  { publicUrl, clock, handshakeText }: Context,
) {
  const { algorithm, timestamp } = scheme;
  const headers = [scheme.header ?? []].flat().map((name) => name.toLowerCase());
  const required = Object.entries(scheme.require ?? {}).map(
    ([name, wanted]) => [name.toLowerCase(), wanted] as const,
  );
  const place = placeOf(scheme);
  const message = new Message(scheme, publicUrl);
  const needsBody =
    !message.isStreamed ||
    [scheme.field, timestamp?.field, message.sha256Query, handshakeText].some(isDefined);

  function readSent(req: IncomingMessage): Sent {
    const texts = textsIn(req, scheme, headers);
    if (texts.length === 0) throw rejected("missing", place);
    return wellFormed(parseSent(texts, scheme), () => formWanted(scheme));
  }

  function readHead(req: IncomingMessage, bodySha256: string | undefined): Head {
    const values = new RequestValues(req);
    for (const [name, wanted] of required) {
      if (need(values.header([name])) !== wanted)
        throw rejected("mismatch", `header ${name} must be ${wanted}`);
    }
    const sent = scheme.field === undefined ? readSent(req) : undefined;
    const time = timestamp && timeInHead(timestamp, values, sent);
    if (timestamp !== undefined && time !== undefined) checkTime(time, timestamp, clock());
    return { req, values, sent, time, hasBodySha256: bodySha256 !== undefined };
  }

  /** Creates a verifier for each combination of a key and a form of the URL that the signature may cover. */
  function createVerifiers(head: Head): Verifier[] {
    const verifiers: Verifier[] = [];
    for (const url of message.urls(head)) {
      for (const key of keys) {
        verifiers.push(
          message.isStreamed
            ? streamVerifier(algorithm, key, message.before(head, url, key), message.after(head, url, key))
            : messageVerifier(algorithm, key, (values) => message.wholes(head, url, key, values)),
        );
      }
    }
    return verifiers;
  }

  function begin(req: IncomingMessage): SignatureProof {
    const bodySha256 = message.sha256Query && hexDigest(req, message.sha256Query);
    const head = readHead(req, bodySha256);
    const verifiers = createVerifiers(head);
    let firstByte: number | undefined;

    function check(values: RequestValues): undefined {
      const { body } = values;
      message.checkBounds(head, values, firstByte ?? body[0]);
      const holds = ({ candidates }: Sent) => some(verifiers, (each) => each.matches(values, candidates));
      if (!allSent(head, values, scheme).every(holds)) throw rejected("mismatch");
      if (bodySha256 !== undefined && bodySha256 !== sha256Hex(body))
        throw rejected("mismatch", `the body's SHA-256 differs from ${message.sha256Query}`);
      if (handshakeText?.test(body.toString("latin1")) === true)
        throw rejected("mismatch", "a handshake could have signed this body");
      if (timestamp?.field !== undefined)
        checkTime(need(values.field(toPointer(timestamp.field))), timestamp, clock());
    }
    return {
      take(chunk) {
        firstByte ??= chunk[0];
        for (const verifier of verifiers) verifier.take(chunk);
      },
      check,
      checkTaken: needsBody ? undefined : () => check(head.values),
    };
  }

  return {
    /**
     * Place of the signature, in words. If several schemes have the same place, each of them is tried, as versions of
     * one signature.
     */
    place,
    hasKey: keys.length > 0,
    isIn: (req: IncomingMessage): boolean => isIn(req, scheme, headers),
    begin,
  };
}

/**
 * Returns whether the request has a signature in the scheme's place. A signature in the body counts as present, because
 * the body has not been read yet.
 */
function isIn(req: IncomingMessage, { query, field }: Scheme, headers: readonly string[]): boolean {
  if (query !== undefined) return !isMissing(new RequestValues(req).query(query));
  return field !== undefined || headers.some((name) => headerValues(req, name).length > 0);
}

/**
 * Returns the texts of the signature: from the first header that the request has, or from all of them if `any_header`
 * is set.
 */
function textsIn(req: IncomingMessage, { query, any_header }: Scheme, headers: readonly string[]): string[] {
  if (query !== undefined) return [need(new RequestValues(req).query(query))];
  const texts: string[] = [];
  for (const name of headers) {
    const values = headerValues(req, name);
    if (values.length > 1) throw rejected("repeated", `header ${name}`);
    texts.push(...values);
    if (texts.length > 0 && any_header !== true) break;
  }
  return texts;
}

/**
 * Returns the signatures of the request. If the credential is a secret token in the body, and the body is a list, each
 * item has its own token.
 */
function allSent({ sent }: Head, values: RequestValues, scheme: Scheme): readonly Sent[] {
  if (sent !== undefined) return [sent];
  const pointer = toPointer(scheme.field);
  const isToken = scheme.algorithm === "equal";
  const texts = isToken ? needAll(values.fields(pointer)) : [need(values.field(pointer))];
  return texts.map((text) => wellFormed(parseSent([text], scheme), () => formWanted(scheme)));
}

/** Says where a request has its signature, for example `header x-signature`. If the signature is missing, the refusal quotes this text. */
function placeOf({ header, query, field }: Scheme): string {
  if (query !== undefined) return `query parameter ${query}`;
  if (field !== undefined) return `field ${field}`;
  return `header ${[header ?? []].flat().join(" or ").toLowerCase()}`;
}

function isMissing(found: Lookup): boolean {
  return "problem" in found && found.problem === "missing";
}

function hexDigest(req: IncomingMessage, parameter: string): string | undefined {
  const found = new RequestValues(req).query(parameter);
  if (isMissing(found)) return undefined;
  const text = need(found);
  return wellFormed(
    /^[0-9a-f]{64}$/.test(text) ? text : undefined,
    () => `${parameter} must be a SHA-256 in hex`,
  );
}
