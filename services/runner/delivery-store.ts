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
 * The results of long calls that no gateway has taken yet. The step that ends a call writes its result here (call-store.ts); any runner
 * on this Redis claims it, delivers it and removes it. The fields of the hash: token, which tells this result from a later one of the
 * same call; tries; status, type and body. `body` is absent if it was longer than is kept.
 */

/** What is delivered of a call that has ended. */
export type Outgoing = {
  readonly status: number;
  readonly contentType: string | undefined;
  readonly body: Buffer | "too long";
};

/** An `Outgoing` that this runner has claimed. */
export type ClaimedDelivery = Outgoing & {
  readonly callId: string;
  readonly token: string;
  /** How often it was claimed, this time included. */
  readonly tries: number;
};

/** The last words of a script with deliver-later.lua. */
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

const PUT_OFF = defineScript({
  source: postponeDeliveryLua,
  keys: "delivery, deliveries",
  args: "id, token, ms",
  proof: "needed",
  reply: nothing,
});

export type DeliveryStore = ReturnType<typeof createDeliveryStore>;

/**
 * What waits to be delivered. No write here needs to be on disk when it resolves: what was delivered and is delivered again changes
 * nothing. Nothing is retried.
 */
export function createDeliveryStore(durable: DurableRedis, { delivery, deliveries }: RunnerKeys) {
  const { redis } = durable;
  const [claim, end, putOff] = [CLAIM.on(redis), END.on(redis), PUT_OFF.on(redis)];
  const keysOf = (id: string) => ({ delivery: delivery(id), deliveries });

  return {
    /** Calls whose result has to be delivered now. */
    due: createReadDue(redis, deliveries),

    /** Undefined if another runner was faster. It may claim it too once so many ms have passed. */
    async claim(callId: string, ms: number): Promise<ClaimedDelivery | undefined> {
      // A Redis that cannot be used may hold another layout.
      const claimed = await durable.write(() => claim(keysOf(callId), { id: callId, ms }));
      if (claimed === undefined) return undefined;
      const [token, status, type, body = "too long" as const, tries] = claimed;
      return { callId, token, status, contentType: type || undefined, body, tries };
    },

    /** It is delivered, or never will be. */
    async end({ callId, token }: ClaimedDelivery): Promise<void> {
      await end(keysOf(callId), { id: callId, token });
    },

    async putOff({ callId, token }: ClaimedDelivery, ms: number): Promise<void> {
      await putOff(keysOf(callId), { id: callId, token, ms });
    },
  };
}
