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

/** The hash of a caller's nonce, and until when it is remembered (unix ms). */
export type CallerNonce = { hash: string; keptUntil: number };

export type CallerNonces = ReturnType<typeof createCallerNonces>;

/**
 * Nonces of callers. Each is in the partition that its hash chooses, so payments of all payers find it there. The claim of a payment in that
 * partition uses the nonce up itself. For any other payment it is reserved, and the reservation proven, before the claim is sent.
 *
 * A claim that is refused, or has an unknown outcome, frees nothing: a copy of the payment may be claimed elsewhere, and rely on the
 * reservation. It ends by its time, or once the payment is known to be void.
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
    /** Whether a payment has used up the nonce, or reserved it. Throws `queue.unavailable`. */
    async isUsed(hash: string): Promise<boolean> {
      const { redis, keys } = homeOf(hash);
      return (await redis.exists(keys.callerNonce(hash)).catch(rethrow)) === 1;
    },

    /**
     * Resolves with why the claim must refuse the nonce, or ""; undefined if the claim itself uses it up. Throws `queue.unavailable` before
     * anything is claimed.
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

    /** The payment that reserved the nonce is void, and no failover can undo that. */
    async free(callId: string, hash: string): Promise<void> {
      if (isAtHome(callId, hash)) return;
      const { keys, free } = homeOf(hash);
      await free({ nonce: keys.callerNonce(hash) }, { id: callId });
    },
  };
}

const rethrow = readFailed("callers' nonces cannot be read");
