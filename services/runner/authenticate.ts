import type { IncomingMessage } from "node:http";
import { metadataTest, WEBHOOK_FORWARDED } from "../../shared/call/job-call.ts";
import { allHeaders, headerValues, onlyHeaderValue, traceparentOf } from "../../shared/http/headers.ts";
import { wholeTarget } from "../../shared/http/target.ts";
import { sha256Hex } from "../../shared/platform/crypto/compare.ts";
import { isContentDigestOf, verifyMessage } from "../../shared/platform/crypto/message-signature.ts";
import type { Secret } from "../../shared/platform/crypto/secret.ts";
import { AppError } from "../../shared/platform/errors/app-error.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import type { Job, JobRequest, Metadata } from "./router.ts";

/** A request for a job that this runner has, whose signature and body have passed all checks. */
export type CheckedRequest = JobRequest & {
  readonly job: Job;
  readonly bytes: number;
  /** SHA-256 of the body, in hex. */
  readonly sha256: string;
};

const KEY = /^[\x21-\x7e]{1,128}$/;
const NO_BODY_SHA256 = sha256Hex(Buffer.alloc(0));

export type RequestChecks = ReturnType<typeof createRequestChecks>;

/**
 * Creates the checks that a request comes from a permitted sender, in two steps. First, `authenticate` verifies the signature
 * (RFC 9421) over the headers, so that the body of an unknown sender is never read. Then `toChecked` compares the body with
 * the `Content-Digest` (RFC 9530) that the signature covers. Without secrets, requests need no signature.
 */
export function createRequestChecks({
  secrets,
  metadataPrefix,
  clock,
}: {
  /** Secrets whose signatures are accepted. Several are allowed, so that a secret can be replaced while calls are in flight. */
  secrets: readonly Secret[];
  metadataPrefix: string;
  clock: Clock;
}) {
  const isSigned = secrets.length > 0;

  /** Throws `runner.signature_rejected` unless one of the secrets signed this request. */
  function authenticate(req: IncomingMessage): void {
    if (!isSigned) return;
    const request = { method: req.method ?? "", path: wholeTarget(req), headers: allHeaders(req) };
    verifyMessage(secrets, request, {
      nowSec: Math.floor(clock() / 1000),
      needs: ["idempotency-key"],
      mustCover: metadataIn(req, metadataPrefix),
    });
  }

  /**
   * Authenticates a request that has no body and names its call in the path. Its Idempotency-Key must be the id of the call.
   * The key may be missing only if no signature is needed.
   */
  function authenticateBare(req: IncomingMessage, callId: string): void {
    authenticate(req);
    const hasKey = isSigned || headerValues(req, "idempotency-key").length > 0;
    if (hasKey && parseKey(req) !== callId) {
      throw AppError.public("request.malformed", "Idempotency-Key must be the id of the call");
    }
    checkDigest(req, NO_BODY_SHA256);
  }

  /** Combines an authenticated request with its body. Throws if the body does not match the request's Content-Digest. */
  function toChecked(req: IncomingMessage, body: Buffer, callId: string, job: Job): CheckedRequest {
    const sha256 = sha256Hex(body);
    checkDigest(req, sha256);
    return {
      callId,
      jobId: job.id,
      job,
      body,
      bytes: body.length,
      sha256,
      contentType: req.headers["content-type"],
      metadata: parseMetadata(req, metadataPrefix),
      traceparent: traceparentOf(req),
    };
  }

  /**
   * Compares the body with the Content-Digest. The signature covers the body only through this digest. So if the digest is
   * wrong, the error is the same as for a wrong signature.
   */
  function checkDigest(req: IncomingMessage, sha256: string): void {
    const digests = headerValues(req, "content-digest");
    if (digests.length === 0 && !isSigned) return;
    if (isContentDigestOf(digests, sha256)) return;
    const reason = "the body does not match Content-Digest";
    if (isSigned) throw new AppError("runner.signature_rejected", { reason });
    throw AppError.public("request.malformed", reason);
  }

  return { authenticate, authenticateBare, toChecked };
}

/**
 * Returns the Idempotency-Key of a request. If a producer sent the request, it is the id of the call. Throws
 * `runner.key_missing`.
 */
export function parseKey(req: IncomingMessage): string {
  const key = onlyHeaderValue(req, "idempotency-key");
  if ("value" in key && KEY.test(key.value)) return key.value;
  const detail = "Idempotency-Key must be sent once, with 1 to 128 visible ASCII characters";
  throw AppError.public("runner.key_missing", detail);
}

function metadataIn(req: IncomingMessage, prefix: string): (name: string) => boolean {
  return metadataTest(prefix, headerValues(req, WEBHOOK_FORWARDED.toLowerCase())[0]);
}

function parseMetadata(req: IncomingMessage, prefix: string): Metadata {
  const metadata: Record<string, string> = {};
  const isMetadata = metadataIn(req, prefix);
  for (const [name, values] of Object.entries(allHeaders(req))) {
    if (!isMetadata(name)) continue;
    if (values.length > 1) {
      throw new AppError("request.malformed", { reason: `${name} was sent more than once` });
    }
    metadata[name.toUpperCase()] = values[0] as string;
  }
  return metadata;
}
