import { callIdFrom } from "../../../shared/call/call-id.ts";
import type { IngressPartition } from "../../../shared/ingress/ingress-partition.ts";
import type { NonceRefusal } from "../../../shared/payments/scripts.ts";
import { AppError, messageOf, RETRY_AFTER_MS } from "../../../shared/platform/errors/app-error.ts";
import { defineScript } from "../../../shared/redis/define-script.ts";
import type { Partitioned } from "../../../shared/redis/partition.ts";
import { nothing, oneOf } from "../../../shared/redis/reply.ts";
import { readFailed } from "../../../shared/redis/unreadable.ts";
import freeNonceLua from "./free-nonce.lua";
import reserveNonceLua from "./reserve-nonce.lua";

const RESERVE = defineScript({
  source: reserveNonceLua,
  keys: "nonce",
  args: "id, keptUntil",
  proof: "needed",
  reply: oneOf("", "NONCE_USED", "NONCE_EXPIRED"),
});

const FREE = defineScript({
  source: freeNonceLua,
  keys: "nonce",
  args: "id",
  proof: "expendable",
  reply: nothing,
});

/** Hash of the nonce in a caller's proof, and the time until which Redis remembers the nonce (unix ms). */
export type CallerNonce = { hash: string; keptUntil: number };

export type CallerNonces = ReturnType<typeof createCallerNonces>;

/**
 * Stores the used nonces of callers' proofs, so that each proof buys only once. The hash of a nonce chooses the partition that
 * stores it, so that a payment of any payer finds it. If the payment is in that partition too, its claim uses up the nonce.
 * Otherwise, the nonce is reserved before the claim is sent, and the reservation is proven.
 *
 * A refused claim, or one with an unknown outcome, frees no nonce: another gateway may claim a copy of the payment and rely on
 * the reservation. The reservation ends at `keptUntil`, or once the payment is known to be void.
 */
export function createCallerNonces(
  partitions: Partitioned<Pick<IngressPartition, "partition" | "beginWrite">>,
) {
  const homes = partitions.map(({ partition, beginWrite }) => {
    const { redis, keys } = partition;
    return {
      redis,
      keys,
      index: partition.index,
      beginWrite,
      reserve: RESERVE.on(redis),
      free: FREE.on(redis),
    };
  });
  const homeOf = (hash: string) => homes.of(callIdFrom(hash));
  const isAtHome = (callId: string, hash: string) =>
    partitions.of(callId).partition.index === homeOf(hash).index;

  return {
    /** Whether a payment has used up or reserved the nonce. Throws `queue.unavailable`. */
    async isUsed(hash: string): Promise<boolean> {
      const { redis, keys } = homeOf(hash);
      return (await redis.exists(keys.callerNonce(hash)).catch(rethrow)) === 1;
    },

    /**
     * Reserves the nonce for a call. Resolves with "" if it is reserved, or with the reason why the claim must refuse it. Resolves with
     * undefined if the nonce needs no reservation, because the claim itself uses it up. Throws `queue.unavailable` before anything is
     * claimed.
     */
    async reserve(callId: string, { hash, keptUntil }: CallerNonce): Promise<NonceRefusal | "" | undefined> {
      if (isAtHome(callId, hash)) return undefined;
      const { keys, beginWrite, reserve } = homeOf(hash);
      const touched = { nonce: keys.callerNonce(hash) };
      return beginWrite()(() => reserve(touched, { id: callId, keptUntil })).catch((cause: unknown) => {
        const reason = `the caller's nonce could not be reserved: ${messageOf(cause)}`;
        throw new AppError("queue.unavailable", { reason, retryAfterMs: RETRY_AFTER_MS, cause });
      });
    },

    /** Frees a nonce whose payment is void. Must be called only once no failover can undo that state. */
    async free(callId: string, hash: string): Promise<void> {
      if (isAtHome(callId, hash)) return;
      const { keys, free } = homeOf(hash);
      await free({ nonce: keys.callerNonce(hash) }, { id: callId });
    },
  };
}

const rethrow = readFailed("callers' nonces cannot be read");
