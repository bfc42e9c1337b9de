import type { Hex } from "./encoding.ts";
import { addressTopic, topicOf } from "./logs.ts";
import type { Log, Reads, Receipt, Transaction } from "./rpc.ts";
import type { Authorization } from "./typed-data.ts";

/** A transfer that the owner of a token has signed, by any method. */
export type AuthorizedTransfer = Authorization & { asset: Hex };

/**
 * Evidence that the receipt of one transaction gives about an authorization. A position is the index of a log in the receipt
 * (`positionIn`).
 */
export type ReceiptEvidence =
  /** The transaction has paid. `position` is that of the transfer. */
  { kind: "paid"; position: number } | InconclusiveEvidence | { kind: "none" };

/** Evidence of a transaction that may have paid, but does not prove that it did. */
export type InconclusiveEvidence =
  /**
   * The authorization was used, but no transfer of the right amount is its partner in the token's event order (`EventOrder`).
   * Either the use and the transfer pair only in the other order, or one of the two has no partner.
   */
  | { kind: "unpaired" }
  /** The authorization was used for the right amount, but only `value` arrived: the token keeps a part of each transfer. */
  | { kind: "short"; value: bigint }
  /**
   * The transaction called x402's Permit2 proxy through another contract (permit2.ts). The transfers at these positions fit, but
   * the receipt does not show which permit each one used.
   */
  | { kind: "wrapped"; positions: readonly [number, ...number[]] };

export type ReadTransaction = (hash: Hex) => Promise<Transaction>;

/** The call that reads whether an authorization is spent, and the decoder of its answer. */
export type StateCall = { to: Hex; data: Hex; isSpent: (word: bigint) => boolean };

/** How one authorization appears on the chain. */
export type TransferRule = {
  /** A filter for logs. It matches all uses and cancellations, and may match other logs. */
  logFilter: { address: Hex; topics: readonly (Hex | readonly Hex[] | null)[] };
  /** Whether a log that the filter matched is a use or a cancellation of the authorization. */
  classifyLog(log: Log, read: ReadTransaction): Promise<"used" | "cancelled" | undefined>;
  /** Returns a sentence that explains why an authorization is spent, although no use or cancellation since this block was found. */
  explainNoTrace(since: bigint): string;
  /** Finds the evidence about the authorization in a receipt. */
  evidenceIn(receipt: Receipt, read: ReadTransaction): Promise<ReceiptEvidence>;
};

/**
 * Order in which a token's contract emits `AuthorizationUsed` and `Transfer`. EIP-3009 does not define it. Other events may come between
 * them.
 */
export const EVENT_ORDERS = ["used_first", "transfer_first"] as const;
export type EventOrder = (typeof EVENT_ORDERS)[number];

/** A transfer in a receipt, and the authorization that moved it. */
export type MovedTransfer = { transfer: Log; authorization: { authorizer: Hex; nonce: Hex } };

type Call = { to: Hex; data: Hex };

/** A transfer method's contracts, calls and events on the chain. `Token` is the configuration of a token with this method. */
export type MethodOnChain<Token> = {
  /** The part of an offer's `extra` without which a client cannot make its signature. */
  signingExtra(token: Token): Readonly<Record<string, string>>;
  /** Returns how the authorization appears on the chain. An undefined `eventOrder` counts as `used_first`. */
  ruleOf(authorization: AuthorizedTransfer & { eventOrder?: EventOrder | undefined }): TransferRule;
  stateCallOf(name: Pick<AuthorizedTransfer, "asset" | "from" | "nonce">): StateCall;
  /** The contract that accepts each nonce of a payer once. */
  nonceContract(asset: string): string;
  /**
   * The call that reads how many units the payer has approved for the method's contract. Absent if the signature alone is enough.
   */
  allowanceCall?(name: Pick<AuthorizedTransfer, "asset" | "from">): Call;
  /**
   * The call that transfers the token with a contract's signature, right after the contract's deployment. `impossible` says why there is no
   * such call.
   */
  callAfterDeployment(transfer: AuthorizedTransfer, signature: Hex): Call | { impossible: string };
  /** The transfers of this token that the method has made in one transaction. */
  transfersIn(
    receipt: Receipt,
    token: { asset: Hex; eventOrder?: EventOrder | undefined },
    read: ReadTransaction,
  ): Promise<readonly MovedTransfer[]>;
  /** Reasons why a token cannot be accepted. An undefined entry means no problem. */
  tokenProblems(
    reads: Reads,
    token: Token & { asset: Hex },
    chainId: number,
  ): Promise<(string | undefined)[]>;
};

/** An account that owns nothing. Calls about this account only show whether a contract has a function. */
export const PROBE_ACCOUNT = { from: `0x${"0".repeat(39)}1`, nonce: `0x${"0".repeat(64)}` } as const;

export const TRANSFER = topicOf("Transfer(address,address,uint256)");

/** The position of a log among all logs of its receipt, from 0. A reorganisation may change `logIndex`, but not this position. */
export function positionIn({ logs }: Receipt, logIndex: number): number {
  return logs.filter((log) => log.logIndex < logIndex).length;
}

export function isTransferOf(log: Log, authorization: AuthorizedTransfer): boolean {
  return isBetween(log, authorization) && amountOf(log) === authorization.value;
}

/** Whether the log is a transfer of any amount from the payer to the recipient. */
export function isBetween(log: Log, authorization: AuthorizedTransfer): boolean {
  return isFrom(log, authorization) && log.topics[2] === addressTopic(authorization.to);
}

export function isFrom(log: Log, { asset, from }: AuthorizedTransfer): boolean {
  return isOf(log, asset, TRANSFER) && log.topics[1] === addressTopic(from);
}

export function isOf(log: Log, contract: Hex, event: Hex): boolean {
  return log.address === contract.toLowerCase() && log.topics[0] === event;
}

/** The amount of a `Transfer`, in the token's smallest unit. */
export function amountOf({ data }: Log): bigint {
  return data === "0x" ? 0n : BigInt(data);
}
