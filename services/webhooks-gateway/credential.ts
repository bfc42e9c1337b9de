import type { IncomingMessage } from "node:http";
import { type EndpointToml, SIGNATURE_HEADERS } from "../../shared/config/webhooks-toml.ts";
import { sameBytes } from "../../shared/crypto/compare.ts";
import { isSignedByAny, parseHmacHeader } from "../../shared/crypto/hmac.ts";
import type { Secret } from "../../shared/crypto/secret.ts";
import { AppError } from "../../shared/errors/app-error.ts";
import { headerBytes, headerValues, onlyHeaderValue } from "../../shared/http/headers.ts";

/** The part of a credential that only the body can prove. */
export type BodyProof = { covers: "received" | "decoded"; check(bytes: Buffer): void };

type Reason = "missing" | "repeated" | "malformed" | "mismatch";

/**
 * Checks a request's credential as far as possible before its body is read, and returns the check that needs the body.
 * Throws `webhook.credential_rejected` with the reason for the log; the caller is told only "unauthorized".
 */
export function checkCredential(req: IncomingMessage, endpoint: EndpointToml): BodyProof | undefined {
  switch (endpoint.auth) {
    case "none":
      return undefined;
    case "bearer":
      requireSecret(bearerToken(req), endpoint.secret);
      return undefined;
    case "api-key":
      requireSecret(onlyCredential(req, endpoint.api_key_header), endpoint.secret);
      return undefined;
    case "hmac-sha256":
      return signatureProof(req, endpoint);
  }
}

/** RFC 6750: the scheme is case-insensitive, the token is not. */
function bearerToken(req: IncomingMessage): string {
  const header = onlyCredential(req, "authorization");
  const token = /^bearer +(\S.*)$/i.exec(header)?.[1];
  if (token === undefined) throw rejected("malformed");
  return token;
}

/** Compares every secret, also after a match, so that the time depends on none of them. */
function requireSecret(presented: string, secrets: readonly Secret[]): void {
  const bytes = headerBytes(presented);
  let matches = false;
  for (const secret of secrets) {
    if (sameBytes(bytes, secret.bytes())) matches = true;
  }
  if (!matches) throw rejected("mismatch");
}

type Hmac = Extract<EndpointToml, { auth: "hmac-sha256" }>;

function signatureProof(req: IncomingMessage, { secret, signature_over }: Hmac): BodyProof {
  const sent = SIGNATURE_HEADERS.find((name) => headerValues(req, name).length > 0);
  if (sent === undefined) throw rejected("missing");
  const signature = parseHmacHeader(onlyCredential(req, sent));
  if (signature === undefined) throw rejected("malformed");
  return {
    covers: signature_over,
    check(bytes) {
      if (!isSignedByAny(secret, signature, bytes)) throw rejected("mismatch");
    },
  };
}

function onlyCredential(req: IncomingMessage, name: string): string {
  const found = onlyHeaderValue(req, name);
  if ("problem" in found) throw rejected(found.problem);
  return found.value;
}

function rejected(reason: Reason): AppError {
  return new AppError("webhook.credential_rejected", { reason, publicDetail: "unauthorized" });
}

/** The challenge that goes with a 401 (RFC 9110, section 11.6.1). */
export function challengeOf(endpoint: EndpointToml): string {
  switch (endpoint.auth) {
    case "bearer":
      return 'Bearer realm="postern"';
    case "api-key":
      return `ApiKey realm="postern", header="${endpoint.api_key_header}"`;
    case "hmac-sha256":
    case "none": // never refused, so never challenged
      return 'HMAC-SHA256 realm="postern"';
  }
}
