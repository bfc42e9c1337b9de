import { hmacSha256, isSignedByAny } from "../../platform/crypto/hmac.ts";
import type { Secret } from "../../platform/crypto/secret.ts";

/** Apart from what else these secrets sign. */
const CONTEXT = "postern result v1 ";
const PREFIX = "rt_";
/** An HMAC-SHA256 in base64url, without padding. */
const TOKEN = /^rt_[A-Za-z0-9_-]{43}$/;

export type ResultTokens = ReturnType<typeof createResultTokens>;

/**
 * The token of a call: who has it may read the call's result. It is an HMAC over the call's id, so that any replica knows it and nothing
 * is stored. The first secret makes tokens, all are good for reading.
 */
export function createResultTokens(secrets: readonly [Secret, ...Secret[]]) {
  const signed = (callId: string) => Buffer.from(`${CONTEXT}${callId}`);
  return {
    /** `rt_` and 43 characters of base64url. */
    of: (callId: string) => `${PREFIX}${hmacSha256(secrets[0], signed(callId)).toString("base64url")}`,

    isOf(callId: string, token: string): boolean {
      if (!TOKEN.test(token)) return false;
      return isSignedByAny(secrets, Buffer.from(token.slice(PREFIX.length), "base64url"), signed(callId));
    },
  };
}
