import { hmacSha256, isSignedByAny } from "../../platform/crypto/hmac.ts";
import type { Secret } from "../../platform/crypto/secret.ts";

/**
 * Start of the signed text. Other signatures are made with the same secrets, but over texts with another start. So none of
 * them is valid as a result token.
 */
const CONTEXT = "postern result v1 ";
const PREFIX = "rt_";
/** An HMAC-SHA256 in base64url, without padding. */
const TOKEN = /^rt_[A-Za-z0-9_-]{43}$/;

export type ResultTokens = ReturnType<typeof createResultTokens>;

/**
 * Creates and checks the result tokens of calls. Any client with a call's token may read the call's result. The token is an
 * HMAC over the call's id, so that every replica can compute it and nothing is stored. The first secret makes tokens; all
 * secrets verify them.
 */
export function createResultTokens(secrets: readonly [Secret, ...Secret[]]) {
  const signed = (callId: string) => Buffer.from(`${CONTEXT}${callId}`);
  return {
    /** Returns `rt_` and 43 characters of base64url. */
    of: (callId: string) => `${PREFIX}${hmacSha256(secrets[0], signed(callId)).toString("base64url")}`,

    isOf(callId: string, token: string): boolean {
      if (!TOKEN.test(token)) return false;
      return isSignedByAny(secrets, Buffer.from(token.slice(PREFIX.length), "base64url"), signed(callId));
    },
  };
}
