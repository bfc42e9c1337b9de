import { hash, randomFillSync } from "node:crypto";
import { ROUTE_END } from "../redis/partition.ts";

export const NOT_A_CALL_ID = "must be a call id: c_ and 32 lower-case hex digits";

export const CALL_ID = /^c_[0-9a-f]{32}$/;

/** An id, or enough of its beginning to be worth a search. */
export const CALL_ID_PREFIX = /^c_[0-9a-f]{4,32}$/;

export const NOT_A_CALL_ID_PREFIX = `${NOT_A_CALL_ID}, or at least the first 4 of them`;

/**
 * The id of a call that can be told again: the same parts are the same call on every replica, for ever. The first 128 bits of
 * SHA-256 over the parts, each preceded by its length in UTF-8 bytes and a colon, so that ("ab","c") differs from ("a","bc").
 */
export function callIdFrom(...parts: readonly string[]): string {
  const text = parts.map((part) => `${Buffer.byteLength(part)}:${part}`).join("");
  return `c_${hash("sha256", text, "hex").slice(0, 32)}`;
}

/** As `callIdFrom`, but in the partition of `callId`, with whose first digits it begins. */
export function callIdBeside(callId: string, ...parts: readonly string[]): string {
  return callId.slice(0, ROUTE_END) + callIdFrom(...parts).slice(ROUTE_END);
}

/** The call of a delivery whose id alone names it: the sender has proven by a token that the id is its own. */
export function callIdOfDelivery(path: string, deliveryId: string): string {
  return callIdFrom(path, deliveryId);
}

/** The same where a signature covers the id. */
export function callIdOfSignedDelivery(path: string, deliveryId: string): string {
  return callIdFrom(path, deliveryId, "covered");
}

const ID_BYTES = 16;
const random = Buffer.alloc(256 * ID_BYTES);
let used = random.length;

/** The id of any other call: 128 random bits. They are drawn from the system for many ids at a time. */
export function randomCallId(): string {
  if (used === random.length) {
    randomFillSync(random);
    used = 0;
  }
  used += ID_BYTES;
  return `c_${random.toString("hex", used - ID_BYTES, used)}`;
}
