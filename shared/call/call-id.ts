import { hash, randomFillSync } from "node:crypto";
import { ROUTE_END } from "../redis/partition.ts";

export const NOT_A_CALL_ID = "must be a call id: c_ and 32 lower-case hex digits";

export const CALL_ID = /^c_[0-9a-f]{32}$/;

/** Matches an id, or the first digits of one. A search needs at least 4 digits. */
export const CALL_ID_PREFIX = /^c_[0-9a-f]{4,32}$/;

export const NOT_A_CALL_ID_PREFIX = `${NOT_A_CALL_ID}, or at least the first 4 of them`;

/**
 * Derives the id of a call from its parts. The same parts give the same id on every replica, forever. The id is the first 128
 * bits of SHA-256 over the parts. Each part is preceded by its length in UTF-8 bytes and a colon, so that ("ab","c") differs
 * from ("a","bc").
 */
export function callIdFrom(...parts: readonly string[]): string {
  const text = parts.map((part) => `${Buffer.byteLength(part)}:${part}`).join("");
  return `c_${hash("sha256", text, "hex").slice(0, 32)}`;
}

/**
 * Like `callIdFrom`, but the id begins with the first digits of `callId`. These digits choose the partition, so both calls
 * are in the same one.
 */
export function callIdInPartitionOf(callId: string, ...parts: readonly string[]): string {
  return callId.slice(0, ROUTE_END) + callIdFrom(...parts).slice(ROUTE_END);
}

/**
 * Derives a call's id from a delivery id that no signature covers, because the sender authenticates its deliveries by a
 * token.
 */
export function callIdOfDelivery(path: string, deliveryId: string): string {
  return callIdFrom(path, deliveryId);
}

/**
 * Derives a call's id from a delivery id that the sender's signature covers. The additional part keeps these ids apart from
 * those of unsigned delivery ids.
 */
export function callIdOfSignedDelivery(path: string, deliveryId: string): string {
  return callIdFrom(path, deliveryId, "covered");
}

const ID_BYTES = 16;
const random = Buffer.alloc(256 * ID_BYTES);
let used = random.length;

/** Returns 128 random bits as a call's id. Gets the bits of 256 ids from the system at once, which is faster. */
export function randomCallId(): string {
  if (used === random.length) {
    randomFillSync(random);
    used = 0;
  }
  used += ID_BYTES;
  return `c_${random.toString("hex", used - ID_BYTES, used)}`;
}
