import { randomUUID } from "node:crypto";
import { defineScript, type Word } from "../../shared/redis/define-script.ts";
import type { DurableRedis } from "../../shared/redis/durable.ts";
import type { RunnerKeys } from "../../shared/redis/keys.ts";
import { bytes, integer, nothing, numeric, optional, text, tuple } from "../../shared/redis/reply.ts";
import claimDeliveryLua from "./claim-delivery.lua";
import { createReadDue } from "./due.ts";
import endDeliveryLua from "./end-delivery.lua";
import postponeDeliveryLua from "./postpone-delivery.lua";

/*
 * The results of long calls that no gateway has accepted yet. The script that ends a call stores its result here
 * (call-store.ts); any runner on this Redis claims, delivers and removes it. Fields of the hash: token (distinguishes this
 * result from a later one of the same call), tries, status, type and body. `body` is absent if it was longer than the limit.
 */

/** The result of an ended call, to be delivered. */
export type Outgoing = {
  readonly status: number;
  readonly contentType: string | undefined;
  readonly body: Buffer | "too long";
};

/** An `Outgoing` that this runner has claimed. */
export type ClaimedDelivery = Outgoing & {
  readonly callId: string;
  readonly token: string;
  /** Number of claims of this delivery, including this one. */
  readonly tries: number;
};

/** Encodes a result for a script that includes deliver-later.lua, as the script's last arguments. */
export function outgoingWords(outgoing: Outgoing | undefined): Word[] {
  if (outgoing === undefined) return [""];
  const { status, contentType = "", body } = outgoing;
  return [randomUUID(), status, contentType, ...(body === "too long" ? [] : [body])];
}

const CLAIM = defineScript({
  source: claimDeliveryLua,
  keys: "delivery, deliveries",
  args: "id, ms",
  proof: "needed",
  strings: "bytes",
  reply: optional(tuple(text, numeric, optional(text), optional(bytes), integer)),
});

const END = defineScript({
  source: endDeliveryLua,
  keys: "delivery, deliveries",
  args: "id, token",
  proof: "needed",
  reply: nothing,
});

const POSTPONE = defineScript({
  source: postponeDeliveryLua,
  keys: "delivery, deliveries",
  args: "id, token, ms",
  proof: "needed",
  reply: nothing,
});

export type DeliveryStore = ReturnType<typeof createDeliveryStore>;

/**
 * Creates the store of results that wait for delivery. A write may be lost after it has resolved. This does no harm, because
 * a repeated delivery changes nothing. The store retries nothing.
 */
export function createDeliveryStore(durable: DurableRedis, { delivery, deliveries }: RunnerKeys) {
  const { redis } = durable;
  const [claim, end, postpone] = [CLAIM.on(redis), END.on(redis), POSTPONE.on(redis)];
  const keysOf = (id: string) => ({ delivery: delivery(id), deliveries });

  return {
    /** Reads the calls whose result is due for delivery. */
    due: createReadDue(redis, deliveries),

    /** Claims a delivery for `ms`; undefined if another runner was faster. */
    async claim(callId: string, ms: number): Promise<ClaimedDelivery | undefined> {
      // Uses `durable.write`, because it refuses a Redis whose data may have another layout.
      const claimed = await durable.write(() => claim(keysOf(callId), { id: callId, ms }));
      if (claimed === undefined) return undefined;
      const [token, status, type, body = "too long" as const, tries] = claimed;
      return { callId, token, status, contentType: type || undefined, body, tries };
    },

    /** Removes a delivery that was accepted or refused for good. */
    async end({ callId, token }: ClaimedDelivery): Promise<void> {
      await end(keysOf(callId), { id: callId, token });
    },

    async postpone({ callId, token }: ClaimedDelivery, ms: number): Promise<void> {
      await postpone(keysOf(callId), { id: callId, token, ms });
    },
  };
}
