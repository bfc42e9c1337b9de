import type { Hex } from "./encoding.ts";
import { addressIn, addressTopic, topicOf } from "./logs.ts";
import type { Log, Receipt } from "./rpc.ts";
import type { Authorization } from "./typed-data.ts";

/*
 * The one rule for what proves that an authorization of EIP-3009 has paid. Its nonce alone proves nothing, because its owner can spend
 * it on a transfer to himself. A transfer alone proves nothing, because a transaction may have others to the same recipient. So each
 * `AuthorizationUsed` pairs with one `Transfer` of the same contract, and the reverse, and no transfer proves two payments.
 */

/** Which of its two events a token's contract emits first. EIP-3009 does not say it. Other events may stand between them. */
export const EVENT_ORDERS = ["used_first", "transfer_first"] as const;
export type EventOrder = (typeof EVENT_ORDERS)[number];

/** An EIP-3009 authorization of the token at `asset`. */
export type TokenAuthorization = Authorization & { asset: Hex; eventOrder: EventOrder };

export const TRANSFER = topicOf("Transfer(address,address,uint256)");
export const AUTHORIZATION_USED = topicOf("AuthorizationUsed(address,bytes32)");
export const AUTHORIZATION_CANCELED = topicOf("AuthorizationCanceled(address,bytes32)");

export type Pair = { used: Log; transfer: Log };

/** The pairs of one token in a receipt. An event that stands between two of the other kind pairs with one of them: the order says which. */
export function pairsIn({ logs }: Receipt, asset: Hex, order: EventOrder): Pair[] {
  const isEvent = (log: Log) => isOf(log, asset, AUTHORIZATION_USED) || isOf(log, asset, TRANSFER);
  const events = logs.filter(isEvent).toSorted((a, b) => a.logIndex - b.logIndex);
  return events.flatMap((first, i) => {
    const second = events[i + 1];
    if (second === undefined) return [];
    const [used, transfer] = order === "used_first" ? [first, second] : [second, first];
    if (used.topics[0] !== AUTHORIZATION_USED || transfer.topics[0] !== TRANSFER) return [];
    return [{ used, transfer }];
  });
}

/** The place of a log among all logs of its receipt, from 0. Unlike `logIndex` it is the same after a reorganisation. */
export function positionIn({ logs }: Receipt, logIndex: number): number {
  return logs.filter((log) => log.logIndex < logIndex).length;
}

/** What a receipt shows of an authorization. */
export type Proof =
  /** It has paid, by the transfer at this position (`positionIn`). */
  | { kind: "paid"; position: number }
  /** It was used, and it or the right sum stands where the token's order pairs it with nothing, or where the other order would pair it. */
  | { kind: "unpaired" }
  /** It was used for the right sum, of which the greater part has come: the token keeps some of each transfer. */
  | { kind: "short"; value: bigint }
  | { kind: "none" };

export function proofIn(receipt: Receipt, authorization: TokenAuthorization): Proof {
  const { asset, eventOrder, value } = authorization;
  if (receipt.status !== 1n) return { kind: "none" };
  const pairs = pairsIn(receipt, asset, eventOrder);
  const isOwn = ({ used }: Pair) => isUseOf(used, authorization);
  const isPaying = (pair: Pair) => isOwn(pair) && isTransferOf(pair.transfer, authorization);
  const paid = pairs.find(isPaying);
  if (paid !== undefined) return { kind: "paid", position: positionIn(receipt, paid.transfer.logIndex) };
  if (!receipt.logs.some((log) => isUseOf(log, authorization))) return { kind: "none" };
  const ofOthers = new Set(pairs.filter((pair) => !isOwn(pair)).map(({ transfer }) => transfer));
  const spent = receipt.logs.filter((log) => isFrom(log, authorization) && !ofOthers.has(log));
  const come = spent.filter((log) => isBetween(log, authorization)).map(amountOf);
  const isElsewhere = EVENT_ORDERS.some((order) => pairsIn(receipt, asset, order).some(isPaying));
  if (isElsewhere || come.includes(value) || !pairs.some(isOwn)) return { kind: "unpaired" };
  const short = come.find((sum) => 2n * sum > value);
  const total = spent.reduce((sum, log) => sum + amountOf(log), 0n);
  return short === undefined || total !== value ? { kind: "none" } : { kind: "short", value: short };
}

function isUseOf(log: Log, { asset, from, nonce }: TokenAuthorization): boolean {
  const [, authorizer, its] = log.topics;
  return (
    isOf(log, asset, AUTHORIZATION_USED) && authorizer === addressTopic(from) && its === nonce.toLowerCase()
  );
}

function isTransferOf(log: Log, authorization: TokenAuthorization): boolean {
  return isBetween(log, authorization) && amountOf(log) === authorization.value;
}

/** Whether the log is a transfer, of any sum, from the payer to the recipient. */
function isBetween(log: Log, authorization: TokenAuthorization): boolean {
  return isFrom(log, authorization) && log.topics[2] === addressTopic(authorization.to);
}

function isFrom(log: Log, { asset, from }: TokenAuthorization): boolean {
  return isOf(log, asset, TRANSFER) && log.topics[1] === addressTopic(from);
}

function isOf(log: Log, asset: Hex, event: Hex): boolean {
  return log.address === asset.toLowerCase() && log.topics[0] === event;
}

/** What a `Transfer` moves, in the token's smallest unit. */
export function amountOf({ data }: Log): bigint {
  return data === "0x" ? 0n : BigInt(data);
}

/** Whose authorization an `AuthorizationUsed` is of, in lower case. */
export function authorizationIn({ topics }: Log): { authorizer: Hex; nonce: Hex } {
  const [, authorizer, nonce] = topics as [Hex, Hex, Hex];
  return { authorizer: addressIn(authorizer), nonce };
}
