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
 * The store of the results of long calls that no gateway has accepted yet. The script that ends a call stores its result here
 * (call-store.ts). Any runner on this Redis claims it, delivers it and then removes it. The hash of a result has the fields
 * token, tries, status, type and body. `token` distinguishes this result from a later one of the same call. `body` is absent
 * if it was longer than the limit.
 */

/** The result of an ended call, to be delivered. */
export type Outgoing = {
  readonly status: number;
  readonly contentType: string | undefined;
  readonly body: Buffer | "too long";
};

/** A result that this runner has claimed and must deliver. */
export type ClaimedDelivery = Outgoing & {
  readonly callId: string;
  readonly token: string;
  /** Number of claims of this delivery, including this one. */
  readonly tries: number;
};

/** Encodes a result as the last arguments of a script that includes deliver-later.lua. */
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
 * Creates the store of results that wait for delivery. Its writes need not survive: if one is lost, a result is delivered
 * again, which changes nothing. The store does not repeat a failed write.
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
      // Runs in `durable.write`, which throws while Redis has data of another layout. Another release may store results
      // differently.
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
