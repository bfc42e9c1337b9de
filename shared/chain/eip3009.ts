import { addressWord, bytes32Word, type Hex, selectorOf } from "./encoding.ts";
import { addressIn, addressTopic, topicOf } from "./logs.ts";
import {
  type AuthorizedTransfer,
  amountOf,
  isBetween,
  isFrom,
  isOf,
  isTransferOf,
  type Proof,
  positionIn,
  type StateCall,
  TRANSFER,
  type TransferRule,
} from "./proof.ts";
import type { Log, Receipt } from "./rpc.ts";

/*
 * The one rule for what proves that an authorization of EIP-3009 has paid. Its nonce alone proves nothing, because its owner can spend
 * it on a transfer to himself. A transfer alone proves nothing, because a transaction may have others to the same recipient. So each
 * `AuthorizationUsed` pairs with one `Transfer` of the same contract, and the reverse, and no transfer proves two payments.
 */

/** Which of its two events a token's contract emits first. EIP-3009 does not say it. Other events may stand between them. */
export const EVENT_ORDERS = ["used_first", "transfer_first"] as const;
export type EventOrder = (typeof EVENT_ORDERS)[number];

/** A transfer that its sender has authorized by EIP-3009. */
export type Eip3009Transfer = AuthorizedTransfer & { method: "eip3009"; eventOrder: EventOrder };

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

export function eip3009Rule(authorized: Eip3009Transfer): TransferRule {
  const { asset, from, nonce } = authorized;
  return {
    traces: {
      address: asset,
      topics: [[AUTHORIZATION_USED, AUTHORIZATION_CANCELED], addressTopic(from), nonce],
    },
    readTrace: async ({ topics }) => (topics[0] === AUTHORIZATION_USED ? "used" : "cancelled"),
    silence: (since) =>
      `the authorization is used, but by no transaction since block ${since}: it was used before the claim, or the node lacks logs`,
    proofIn: async (receipt) => proofIn(receipt, authorized),
  };
}

const AUTHORIZATION_STATE = selectorOf("authorizationState(address,bytes32)");

/** `authorizationState(from, nonce)` is true once the nonce is used or cancelled. */
export function authorizationState({
  asset,
  from,
  nonce,
}: Pick<Eip3009Transfer, "asset" | "from" | "nonce">): StateCall {
  const data = `${AUTHORIZATION_STATE}${addressWord(from)}${bytes32Word(nonce)}` as const;
  return { to: asset, data, isSpent: (word) => word !== 0n };
}

function proofIn(receipt: Receipt, authorized: Eip3009Transfer): Proof {
  const { asset, eventOrder, value } = authorized;
  if (receipt.status !== 1n) return { kind: "none" };
  const pairs = pairsIn(receipt, asset, eventOrder);
  const isOwn = ({ used }: Pair) => isUseOf(used, authorized);
  const isPaying = (pair: Pair) => isOwn(pair) && isTransferOf(pair.transfer, authorized);
  const paid = pairs.find(isPaying);
  if (paid !== undefined) return { kind: "paid", position: positionIn(receipt, paid.transfer.logIndex) };
  if (!receipt.logs.some((log) => isUseOf(log, authorized))) return { kind: "none" };
  const ofOthers = new Set(pairs.filter((pair) => !isOwn(pair)).map(({ transfer }) => transfer));
  const spent = receipt.logs.filter((log) => isFrom(log, authorized) && !ofOthers.has(log));
  const come = spent.filter((log) => isBetween(log, authorized)).map(amountOf);
  const isElsewhere = EVENT_ORDERS.some((order) => pairsIn(receipt, asset, order).some(isPaying));
  if (isElsewhere || come.includes(value) || !pairs.some(isOwn)) return { kind: "unpaired" };
  const short = come.find((sum) => 2n * sum > value);
  const total = spent.reduce((sum, log) => sum + amountOf(log), 0n);
  return short === undefined || total !== value ? { kind: "none" } : { kind: "short", value: short };
}

function isUseOf(log: Log, { asset, from, nonce }: Eip3009Transfer): boolean {
  const [, authorizer, its] = log.topics;
  return (
    isOf(log, asset, AUTHORIZATION_USED) && authorizer === addressTopic(from) && its === nonce.toLowerCase()
  );
}

/** Whose authorization an `AuthorizationUsed` is of, in lower case. */
export function authorizationIn({ topics }: Log): { authorizer: Hex; nonce: Hex } {
  const [, authorizer, nonce] = topics as [Hex, Hex, Hex];
  return { authorizer: addressIn(authorizer), nonce };
}
