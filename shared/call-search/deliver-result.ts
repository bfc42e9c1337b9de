import { encodeResult, type ResultLimits, type StoredResult } from "../call/results/result.ts";
import { QUEUE_CONSTANTS } from "../queue/lua-constants.ts";
import { defineScript } from "../redis/define-script.ts";
import type { Partition } from "../redis/partition.ts";
import { oneOf } from "../redis/reply.ts";
import deliverResultLua from "./deliver-result.lua";

/** A result that a runner has delivered. */
export type Delivery = StoredResult & { by: "delivery" };

/** Outcomes of a delivery. */
const DELIVERED = [
  "stored",
  /** This result was delivered before. */
  "same",
  /**
   * A different result was delivered before, and it stays. An answer replaces an earlier failure, but is then `stored`.
   */
  "another",
  /** The call was discarded or forgotten, or its refund is exported or done: it accepts no result. */
  "too late",
] as const;
type Delivered = (typeof DELIVERED)[number];

const DELIVER = defineScript({
  source: deliverResultLua,
  keys: "record, result, payment",
  args: "prefix, id, resultMs, bytesMax, result",
  constants: QUEUE_CONSTANTS,
  proof: "needed",
  reply: oneOf(...DELIVERED),
});

export type DeliverResult = (id: string, result: Delivery) => Promise<Delivered>;

/**
 * Creates the function that stores the results of runners. If a body is longer than `resultBytesMax`, it is not stored,
 * but the stored result says that it was too long. The function does not retry. It throws `record.unreadable`.
 */
export function createDeliverResult(
  { redis, keys, prefix }: Partition,
  { resultMs, resultBytesMax, bytesMax }: ResultLimits,
): DeliverResult {
  const deliver = DELIVER.on(redis);
  return async (id, result) => {
    const touched = { record: keys.record(id), result: keys.result(id), payment: keys.payment(id) };
    const value = encodeResult(shortened(result, resultBytesMax));
    return deliver(touched, { prefix, id, resultMs, bytesMax, result: value });
  };
}

function shortened(result: Delivery, bytesMax: number): StoredResult {
  if (result.kind !== "answer" || result.body.length <= bytesMax) return result;
  const { body, ...told } = result;
  return { ...told, kind: "too_long" };
}
