import { randomBytes } from "node:crypto";
import { hmacSha256, isSignedByAny } from "../../../shared/platform/crypto/hmac.ts";
import type { Secret } from "../../../shared/platform/crypto/secret.ts";
import { AppError, RETRY_AFTER_MS } from "../../../shared/platform/errors/app-error.ts";
import { CLOCK_CHANGE_MS, type Clock } from "../../../shared/platform/time/clock.ts";
import { defineScript } from "../../../shared/redis/define-script.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import { oneOf, optional } from "../../../shared/redis/reply.ts";
import useNonceLua from "./use-nonce.lua";

/** For so long a nonce is good. */
export const NONCE_MS = 5 * 60_000;

/** Apart from what else these secrets sign. */
const CONTEXT = "postern sign-in v1 ";
const TIME_BYTES = 6;
const RANDOM_BYTES = 16;
const MAC_AT = TIME_BYTES + RANDOM_BYTES;
/** Time, randomness and MAC in lower-case hex: letters and digits alone, as EIP-4361 wants them, and in one form alone. */
const NONCE = /^[0-9a-f]{108}$/;

export type SignInNonces = ReturnType<typeof createSignInNonces>;

/**
 * Nonces that no one has to remember before they are used: each is an HMAC over the call's id, the time and randomness. The first secret
 * makes them, all are taken. The clock is Redis', which also expires what is remembered of used nonces.
 */
export function createSignInNonces(secrets: readonly [Secret, ...Secret[]], clock: Clock) {
  const signed = (callId: string, stamp: Buffer) =>
    Buffer.from(`${CONTEXT}${callId} ${stamp.toString("hex")}`);

  return {
    /** `issuedAt` is in unix milliseconds. */
    issue(callId: string): { nonce: string; issuedAt: number } {
      const issuedAt = clock();
      const stamp = Buffer.concat([Buffer.alloc(TIME_BYTES), randomBytes(RANDOM_BYTES)]);
      stamp.writeUIntBE(issuedAt, 0, TIME_BYTES);
      const mac = hmacSha256(secrets[0], signed(callId, stamp));
      return { nonce: Buffer.concat([stamp, mac]).toString("hex"), issuedAt };
    },

    /** When a nonce of this call was issued, by any replica; or why it is good for nothing. */
    check(callId: string, nonce: string): { issuedAt: number } | { problem: string } {
      if (!NONCE.test(nonce)) return { problem: "was not issued by this gateway" };
      const bytes = Buffer.from(nonce, "hex");
      const [stamp, mac] = [bytes.subarray(0, MAC_AT), bytes.subarray(MAC_AT)];
      if (!isSignedByAny(secrets, mac, signed(callId, stamp)))
        return { problem: "was not issued by this gateway for this call" };
      const issuedAt = stamp.readUIntBE(0, TIME_BYTES);
      const ageMs = clock() - issuedAt;
      if (ageMs > NONCE_MS || ageMs < -CLOCK_CHANGE_MS) return { problem: "has expired" };
      return { issuedAt };
    },
  };
}

const USE = defineScript({
  source: useNonceLua,
  keys: "used",
  args: "keptUntil",
  proof: "needed",
  reply: optional(oneOf("has expired", "was used before")),
});

export type UseNonce = ReturnType<typeof createUseNonce>;

/** Uses up a nonce. Resolves with why it is good for nothing, if it was used before, at any replica, or has expired. Throws `queue.unavailable`. */
export function createUseNonce({ redis, keys }: Partition) {
  const use = USE.on(redis);
  return async (nonce: string, issuedAt: number): Promise<string | undefined> => {
    const keptUntil = issuedAt + NONCE_MS + CLOCK_CHANGE_MS;
    return use({ used: keys.usedSignIn(nonce) }, { keptUntil }).catch((cause: unknown) => {
      const reason = "it is unknown whether the nonce was used before";
      throw new AppError("queue.unavailable", { reason, retryAfterMs: RETRY_AFTER_MS, cause });
    });
  };
}
