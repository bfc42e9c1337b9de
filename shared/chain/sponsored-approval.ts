import { permitCall } from "./eip2612.ts";
import { addressWord, type Hex, selectorOf, uintWord } from "./encoding.ts";
import { PERMIT2 } from "./permit2.ts";
import type { AuthorizedTransfer } from "./proof.ts";
import { parseRawTransaction, type RawTransaction } from "./raw-transaction.ts";
import type { Block, Reads } from "./rpc.ts";
import { Reverted, unlessRefused } from "./rpc-errors.ts";

/** An approval that lets Permit2 move a token. The payer signs it; a facilitator sends it and pays for its gas. */
export type SponsoredApproval =
  /** A permit of the token itself (EIP-2612), for this amount. */
  | { kind: "permit"; amount: bigint; deadline: bigint; signature: Hex }
  /** A transaction that calls the token's `approve` for this amount. */
  | { kind: "transaction"; amount: bigint; signedTransaction: Hex };

export type ApprovalCheck = {
  /** The payment that needs the approval. */
  transfer: AuthorizedTransfer;
  chainId: number;
  approval: SponsoredApproval;
};

export type ApprovalVerdict = { kind: "fits" } | { kind: "refused"; why: string };

/** Gas limit of a simulated call. `approve` of any token takes less than a tenth of this gas. */
const APPROVAL_GAS = 3_000_000n;
/**
 * Minimum gas of a sponsored transaction. `approve` of any token takes more. With less gas, a node refuses to simulate the call,
 * because the call's data alone costs more. With gas 0, a node applies no limit.
 */
const LEAST_GAS = 24_000n;

/**
 * Checks whether the payment could be made after this approval. The approval must be for Permit2, for this token and for a sufficient
 * amount. The token must accept the approval in a simulated call. Undefined if the node does not know the block.
 */
export function checkApproval(
  reads: Reads,
  { transfer, chainId, approval }: ApprovalCheck,
  head: Block,
): Promise<ApprovalVerdict | undefined> {
  return approval.kind === "permit"
    ? checkPermit(reads, transfer, approval, head)
    : checkTransaction(reads, { transfer, chainId, approval }, head);
}

async function checkPermit(
  reads: Reads,
  { asset, from, value, validBefore }: AuthorizedTransfer,
  { amount, deadline, signature }: Extract<SponsoredApproval, { kind: "permit" }>,
  head: Block,
): Promise<ApprovalVerdict | undefined> {
  // The x402 proxy (permit2.ts) reverts if the permit's amount is not that of the payment.
  if (amount !== value) return refused("its amount must be that of the payment");
  if (deadline < validBefore) return refused("its deadline must not be before that of the payment");
  const data = permitCall({ owner: from, spender: PERMIT2, value: amount, deadline, signature });
  return simulateCall(reads, { to: asset, data }, head, "the token does not accept the permit");
}

async function checkTransaction(
  reads: Reads,
  {
    transfer: { asset, from, value },
    chainId,
    approval: { amount, signedTransaction },
  }: ApprovalCheck & { approval: Extract<SponsoredApproval, { kind: "transaction" }> },
  head: Block,
): Promise<ApprovalVerdict | undefined> {
  if (amount < value) return refused("its amount must be at least that of the payment");
  const transaction = parseRawTransaction(signedTransaction);
  if (transaction === undefined) return refused("signedTransaction must be a transaction of EIP-1559");
  const { to, data, nonce, gas, signer } = transaction;
  if (transaction.chainId !== BigInt(chainId)) return refused("the transaction is for another chain");
  if (signer !== from.toLowerCase()) return refused("the transaction is not signed by the payer");
  if (to !== asset.toLowerCase() || data !== approveCall(amount) || hasValueOrAccessList(transaction))
    return refused(`the transaction must call approve(${PERMIT2}, ${amount}) of the token, and nothing else`);
  if (gas < LEAST_GAS) return refused("the gas of the transaction is too low");
  if (!paysFee(transaction, head))
    return refused(`maxFeePerGas of the transaction is too low: the base fee is ${head.baseFeePerGas}`);
  const next = await reads.transactionCount(from, { blockHash: head.hash }).catch(unlessRefused);
  if (next === undefined) return undefined;
  if (nonce !== next) return refused("the nonce of the transaction is not the payer's next nonce");
  const call = { from, to, data, gas: gas < APPROVAL_GAS ? gas : APPROVAL_GAS };
  return simulateCall(reads, call, head, "the token does not accept the approval, or its gas is too low");
}

/** Answer of a token that refuses an approval without a revert (ERC-20). A token that accepts it answers true or nothing. */
const FALSE: Hex = `0x${uintWord(0n)}`;

/** Simulates the call. Undefined if the node does not have the block. */
async function simulateCall(
  reads: Reads,
  call: { from?: Hex; to: Hex; data: Hex; gas?: bigint },
  { hash: blockHash }: Block,
  why: string,
): Promise<ApprovalVerdict | undefined> {
  try {
    const answer = await reads.call({ gas: APPROVAL_GAS, ...call }, { blockHash });
    return answer === FALSE ? refused(why) : { kind: "fits" };
  } catch (error) {
    return error instanceof Reverted ? refused(why) : unlessRefused(error);
  }
}

const APPROVE = selectorOf("approve(address,uint256)");

function approveCall(amount: bigint): Hex {
  return `${APPROVE}${addressWord(PERMIT2)}${uintWord(amount)}`;
}

function hasValueOrAccessList({ value, hasAccessList }: RawTransaction): boolean {
  return value !== 0n || hasAccessList;
}

function paysFee({ maxFeePerGas, maxPriorityFeePerGas }: RawTransaction, { baseFeePerGas = 0n }: Block) {
  return maxFeePerGas >= baseFeePerGas && maxFeePerGas >= maxPriorityFeePerGas;
}

function refused(why: string): ApprovalVerdict {
  return { kind: "refused", why };
}
