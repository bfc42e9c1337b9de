import { randomBytes } from "node:crypto";
import { hmacSha256, isSignedByAny } from "../../../shared/platform/crypto/hmac.ts";
import type { Secret } from "../../../shared/platform/crypto/secret.ts";
import { AppError, RETRY_AFTER_MS } from "../../../shared/platform/errors/app-error.ts";
import { CLOCK_CHANGE_MS, type Clock } from "../../../shared/platform/time/clock.ts";
import { defineScript } from "../../../shared/redis/define-script.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import { oneOf, optional } from "../../../shared/redis/reply.ts";
import useNonceLua from "./use-nonce.lua";

/** A nonce expires after this time. */
export const NONCE_MS = 5 * 60_000;

/**
 * Prefix of the text over which a nonce's MAC is computed. The same secrets sign other texts, with other prefixes. So the MAC of
 * another text is never valid in a nonce.
 */
const CONTEXT = "postern sign-in v1 ";
const TIME_BYTES = 6;
const RANDOM_BYTES = 16;
const MAC_AT = TIME_BYTES + RANDOM_BYTES;
/**
 * Form of a nonce: time, random bytes and MAC in lower-case hex. EIP-4361 allows only letters and digits in it. Upper case is
 * refused, so that the same nonce cannot be written in two ways and used twice.
 */
const NONCE = /^[0-9a-f]{108}$/;

export type SignInNonces = ReturnType<typeof createSignInNonces>;

/**
 * Creates the functions that issue and check nonces. A nonce need not be stored before it is used: it contains its time, random
 * bytes, and a MAC over both and the call's id. The first secret makes the MAC, and MACs by all secrets are accepted. `clock`
 * must be the clock of Redis, because Redis forgets used nonces by it.
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

    /** Returns the time when any replica has issued this nonce for this call, or the reason why the nonce is not valid. */
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

/**
 * Creates the function that uses up a nonce, for all replicas. It resolves with undefined, or with the reason if the nonce has
 * expired or was used before. It throws `queue.unavailable`.
 */
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
