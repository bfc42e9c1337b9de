import type { IncomingMessage } from "node:http";
import { sha256Hex } from "../../shared/crypto/compare.ts";
import { isContentDigestOf, verifyMessage } from "../../shared/crypto/message-signature.ts";
import type { Secret } from "../../shared/crypto/secret.ts";
import { AppError } from "../../shared/errors/app-error.ts";
import { headerValues, traceparentOf } from "../../shared/http/headers.ts";
import { isMetadataHeader } from "../../shared/job-call/job-call.ts";
import type { Clock } from "../../shared/time/clock.ts";
import type { Job, JobRequest, Metadata } from "./router.ts";

/** A call that is offered to this runner: authentic, whole, for a job it has. */
export type Offer = JobRequest & { readonly job: Job; readonly bytes: number; readonly sha256: string };

const SIGNATURE_AGE_SEC_MAX = 300;
const KEY = /^[\x21-\x7e]{1,128}$/;

export type OfferRules = {
  /** With none, requests need no signature. */
  secrets: readonly Secret[];
  metadataPrefix: string;
  clock: Clock;
};

/** Throws `runner.signature_rejected` unless one of the secrets signed what this request asks for; looks at no body. */
export function authenticate(req: IncomingMessage, { secrets, metadataPrefix, clock }: OfferRules): void {
  if (secrets.length === 0) return;
  const request = { method: req.method ?? "", path: req.url ?? "", headers: allHeaders(req) };
  verifyMessage(secrets, request, {
    nowSec: Math.floor(clock() / 1000),
    maxAgeSec: SIGNATURE_AGE_SEC_MAX,
    mustCover: (name) => isMetadataHeader(name, metadataPrefix),
  });
}

/** The call's key, as its producer made it; throws `runner.key_missing`. */
export function parseKey(req: IncomingMessage): string {
  const [key, ...more] = headerValues(req, "idempotency-key");
  if (key !== undefined && more.length === 0 && KEY.test(key)) return key;
  const detail = "Idempotency-Key has to come once, as 1 to 128 visible ASCII characters";
  throw AppError.public("runner.key_missing", detail);
}

/**
 * As `authenticate` and `toOffer`, for a request without a body whose path names the call: where it has a key, or needs
 * one for its signature, that is the call's id.
 */
export function authenticateBare(
  req: IncomingMessage,
  body: Buffer,
  rules: OfferRules & { callId: string },
): void {
  authenticate(req, rules);
  const keyed = rules.secrets.length > 0 || headerValues(req, "idempotency-key").length > 0;
  if (keyed && parseKey(req) !== rules.callId) {
    const detail = "Idempotency-Key is not the id of the call";
    throw AppError.public("request.malformed", detail);
  }
  checkDigest(headerValues(req, "content-digest"), sha256Hex(body), rules);
}

/** The request with its body; throws when the bytes are not those that the request speaks of. */
export function toOffer(
  req: IncomingMessage,
  body: Buffer,
  rules: OfferRules & { callId: string; job: Job },
): Offer {
  const sha256 = sha256Hex(body);
  checkDigest(headerValues(req, "content-digest"), sha256, rules);
  return {
    callId: rules.callId,
    jobId: rules.job.id,
    job: rules.job,
    body,
    bytes: body.length,
    sha256,
    contentType: req.headers["content-type"],
    metadata: parseMetadata(req, rules.metadataPrefix),
    traceparent: traceparentOf(req),
  };
}

/** A signature covers the body by its digest alone, so there a wrong digest is a wrong signature. */
function checkDigest(digests: string[], sha256: string, { secrets }: OfferRules): void {
  if (digests.length === 0 && secrets.length === 0) return;
  if (isContentDigestOf(digests, sha256)) return;
  const reason = "the body is not the one that Content-Digest speaks of";
  if (secrets.length > 0) throw new AppError("runner.signature_rejected", { reason });
  throw new AppError("request.malformed", { reason, publicDetail: reason });
}

function parseMetadata(req: IncomingMessage, prefix: string): Metadata {
  const metadata: Record<string, string> = {};
  for (const [name, values] of Object.entries(allHeaders(req))) {
    if (!isMetadataHeader(name, prefix)) continue;
    if (values.length > 1)
      throw new AppError("request.malformed", { reason: `${name} comes more than once` });
    metadata[name.toUpperCase()] = values[0] as string;
  }
  return metadata;
}

function allHeaders({ rawHeaders }: IncomingMessage): Record<string, string[]> {
  const headers: Record<string, string[]> = Object.create(null);
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] as string).toLowerCase();
    headers[name] ??= [];
    headers[name].push(rawHeaders[i + 1] as string);
  }
  return headers;
}
