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

/** Hash of the nonce in a caller's proof, and the time until which Redis remembers that the nonce is used (unix ms). */
export type CallerNonce = { hash: string; keptUntil: number };

export type CallerNonces = ReturnType<typeof createCallerNonces>;

/**
 * Stores the used nonces of callers' proofs, so that each proof buys only once. The hash of a nonce chooses the partition that
 * stores it, so that the nonce is found for any payer. If the payment is in that partition too, its claim uses up the
 * nonce in the same step. Otherwise, the nonce is first reserved in its partition. The claim is sent only once the reservation is
 * proven, which means that it survives a failover.
 * A nonce is not freed if its claim is refused or has an unknown outcome. Another gateway may claim a copy of the payment at the
 * same time, and rely on the reservation. The reservation ends at `keptUntil`, or once the payment is known to be void.
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
     * Reserves the nonce for a call. Resolves with "" if it is reserved, or with the reason why it is refused, which the caller
     * must pass to the claim. Resolves with undefined if the nonce needs no reservation, because the claim itself uses it up.
     * Throws `queue.unavailable` before anything is claimed.
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

    /**
     * Frees a nonce whose payment is void. It must be called only once the void state is proven. If a failover undid that
     * state, the payment could still be made, and the nonce would be used twice.
     */
    async free(callId: string, hash: string): Promise<void> {
      if (isAtHome(callId, hash)) return;
      const { keys, free } = homeOf(hash);
      await free({ nonce: keys.callerNonce(hash) }, { id: callId });
    },
  };
}

const rethrow = readFailed("callers' nonces cannot be read");
