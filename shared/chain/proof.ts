import type { Hex } from "./encoding.ts";
import { addressTopic, topicOf } from "./logs.ts";
import type { Log, Reads, Receipt, Transaction } from "./rpc.ts";
import type { Authorization } from "./typed-data.ts";

/** What the owner of a token has signed: this transfer of it, by whichever method. */
export type AuthorizedTransfer = Authorization & { asset: Hex };

/** What a receipt shows of an authorization. Positions are those of `positionIn`. */
export type ReceiptEvidence =
  /** It has paid, by the transfer at this position. */
  { kind: "paid"; position: number } | Oddity | { kind: "none" };

/** A transaction that may have paid, and does not prove it. */
export type Oddity =
  /** It was used, and it or the right sum stands where the token's order pairs it with nothing, or where the other order would pair it. */
  | { kind: "unpaired" }
  /** It was used for the right sum, of which this much has come: the token keeps some of each transfer. */
  | { kind: "short"; value: bigint }
  /** A contract has called the x402 proxy, and by these transfers one permit each was paid; whether by this one is not to be seen. */
  | { kind: "wrapped"; positions: readonly [number, ...number[]] };

export type ReadTransaction = (hash: Hex) => Promise<Transaction>;

/** The call that asks whether an authorization is spent, and how its answer says so. */
export type StateCall = { to: Hex; data: Hex; isSpent: (word: bigint) => boolean };

/** How one authorization shows on the chain. */
export type TransferRule = {
  /** A filter for logs among which are those of its use and its cancellation. */
  traces: { address: Hex; topics: readonly (Hex | readonly Hex[] | null)[] };
  /** What a log of the filter says of the authorization. */
  readTrace(log: Log, read: ReadTransaction): Promise<"used" | "cancelled" | undefined>;
  /** What it means, as a sentence, if it is spent and no use or cancellation is found since this block. */
  silence(since: bigint): string;
  /** What proves that it has paid. */
  evidenceIn(receipt: Receipt, read: ReadTransaction): Promise<ReceiptEvidence>;
};

/** Which of its two events the contract of a token emits first: EIP-3009 leaves it open. Other events may stand between them. */
export const EVENT_ORDERS = ["used_first", "transfer_first"] as const;
export type EventOrder = (typeof EVENT_ORDERS)[number];

/** A transfer that a receipt shows, and the authorization that moved it. */
export type MovedTransfer = { transfer: Log; authorization: { authorizer: Hex; nonce: Hex } };

type Call = { to: Hex; data: Hex };

/** A method by which tokens move, as the chain knows it. `Token` is what the configuration says of such a token. */
export type MethodOnChain<Token> = {
  /** The part of an offer's `extra` that a client needs to sign. */
  signingExtra(token: Token): Readonly<Record<string, string>>;
  /** Its `eventOrder` is `used_first` if it is not known. */
  ruleOf(authorization: AuthorizedTransfer & { eventOrder?: EventOrder | undefined }): TransferRule;
  stateCallOf(name: Pick<AuthorizedTransfer, "asset" | "from" | "nonce">): StateCall;
  /** The contract that accepts each nonce of a payer once. */
  nonceContract(asset: string): string;
  /** The call that asks how many units the payer lets the method move; undefined if the signature alone is enough. */
  allowanceCall?(name: Pick<AuthorizedTransfer, "asset" | "from">): Call;
  /** The call that moves the token by the signature of a contract that is deployed just before it, or why none can. */
  callOfDeployed(transfer: AuthorizedTransfer, signature: Hex): Call | { impossible: string };
  /** The transfers of this token that the method has made in a receipt. */
  movedIn(
    receipt: Receipt,
    token: { asset: Hex; eventOrder?: EventOrder | undefined },
    read: ReadTransaction,
  ): Promise<readonly MovedTransfer[]>;
  /** Why a token must not be sold for. An undefined entry is no problem. */
  tokenProblems(
    reads: Reads,
    token: Token & { asset: Hex },
    chainId: number,
  ): Promise<(string | undefined)[]>;
};

/** A payer who owns nothing: what is asked about him shows whether a contract answers. */
export const NOBODY = { from: `0x${"0".repeat(39)}1`, nonce: `0x${"0".repeat(64)}` } as const;

export const TRANSFER = topicOf("Transfer(address,address,uint256)");

/** The place of a log among all logs of its receipt, from 0. Unlike `logIndex` it is the same after a reorganisation. */
export function positionIn({ logs }: Receipt, logIndex: number): number {
  return logs.filter((log) => log.logIndex < logIndex).length;
}

export function isTransferOf(log: Log, authorization: AuthorizedTransfer): boolean {
  return isBetween(log, authorization) && amountOf(log) === authorization.value;
}

/** Whether the log is a transfer, of any sum, from the payer to the recipient. */
export function isBetween(log: Log, authorization: AuthorizedTransfer): boolean {
  return isFrom(log, authorization) && log.topics[2] === addressTopic(authorization.to);
}

export function isFrom(log: Log, { asset, from }: AuthorizedTransfer): boolean {
  return isOf(log, asset, TRANSFER) && log.topics[1] === addressTopic(from);
}

export function isOf(log: Log, contract: Hex, event: Hex): boolean {
  return log.address === contract.toLowerCase() && log.topics[0] === event;
}

/** What a `Transfer` moves, in the token's smallest unit. */
export function amountOf({ data }: Log): bigint {
  return data === "0x" ? 0n : BigInt(data);
}
