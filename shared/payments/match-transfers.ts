import type { Chain } from "../chain/chain.ts";
import { chainIdOf, type Hex } from "../chain/encoding.ts";
import type { TransferMethod } from "../chain/payment-schemes.ts";
import type { EventOrder } from "../chain/proof.ts";
import type { SentTransfer, Transfer } from "../chain/transfers.ts";
import { inPages } from "../redis/pages.ts";
import type { AllPayments } from "./all-payments.ts";
import type { AllRefunds } from "./all-refunds.ts";
import { isRefundOf } from "./close-refunds.ts";
import { countsAsPaid, type PaymentSummary } from "./list.ts";
import { type PaymentTerms, paymentCallId, showsTransfer, toAuthorization } from "./payment.ts";

/**
 * Selection of the transfers to match with the journal: one token, one recipient, and a range of blocks (both ends included).
 */
type MatchedRange = {
  /** CAIP-2. */
  network: string;
  asset: string;
  method: TransferMethod;
  /** Order in which an EIP-3009 token emits the events of a transfer. */
  eventOrder: EventOrder | undefined;
  payTo: string;
  /** The configured addresses from which refunds are paid. */
  refundFrom: readonly string[];
  fromBlock: bigint;
  toBlock: bigint;
  /** Aborted by the caller when it needs no further results. The search then throws. */
  signal?: AbortSignal | undefined;
};

/** A transfer or a payment without its counterpart. */
export type Mismatch =
  /**
   * A transfer to the recipient for which the journal has no payment. `callId` is the call id that such a payment would have.
   * Undefined if the transfer shows no authorization, from which the id is derived.
   */
  | { kind: "orphan"; transfer: Transfer; callId: string | undefined }
  /** A transfer for a payment that, according to the journal, was not made. */
  | { kind: "unsettled"; transfer: Transfer; payment: PaymentSummary }
  /** A payment that was made in this range of blocks according to the journal, but has no transfer on the chain. */
  | { kind: "missing"; payment: PaymentSummary }
  /**
   * A transfer that looks like the refund of a payment, but has closed no refund case: the payment's case was closed by
   * another transfer, or withdrawn.
   */
  | { kind: "surplus"; transfer: SentTransfer; payment: PaymentSummary };

export type Finding = Mismatch | { kind: "matched"; transfer: Transfer; payment: PaymentSummary };

const TRANSFERS_AT_ONCE = 100;

/**
 * Creates the function that compares the chain with the journal in both directions. It searches the journal for each transfer
 * to the recipient, and the chain for each payment in the journal. Throws `payment.unavailable` if the chain cannot be read.
 */
export function createMatchTransfers({
  chain,
  payments,
  refunds,
}: {
  chain: Pick<Chain, "transfersTo" | "transfersFrom" | "proofOf">;
  payments: Pick<AllPayments, "read" | "paidBy" | "matching">;
  refunds: Pick<AllRefunds, "closedBy">;
}) {
  return async function* matchTransfers(range: MatchedRange): AsyncGenerator<Finding> {
    const seen = new Set<string>();
    for await (const found of findings(range)) {
      if (found.kind !== "orphan") seen.add(found.payment.id);
      yield found;
    }
    const exported: PaymentSummary[] = [];
    for await (const payment of payments.matching({})) {
      range.signal?.throwIfAborted();
      if (isExported(payment, range)) exported.push(payment);
      const isUnseen = !seen.has(payment.id) && mayBeInRange(payment, range);
      if (isUnseen && (await isMissing(payment, range))) yield { kind: "missing", payment };
    }
    yield* surplus(range, exported);
  };

  /**
   * Yields transfers that look like a refund, but have closed no case. It leaves out a transfer that fits a pending case,
   * because the operation `refund-check` will close the case with such a transfer.
   */
  async function* surplus(
    { network, asset, refundFrom, fromBlock, toBlock, signal }: MatchedRange,
    exported: readonly PaymentSummary[],
  ): AsyncGenerator<Mismatch> {
    if (exported.length === 0) return;
    const senders = refundFrom as readonly Hex[];
    const sent = { asset: asset as Hex, senders, fromBlock, toBlock, signal };
    const fitting = (transfer: Omit<SentTransfer, "position">) =>
      exported.filter((payment) => isRefundOf(transfer, payment));
    for await (const transfer of chain.transfersFrom(sent, (each) => fitting(each).length > 0)) {
      const [payment, ...others] = fitting(transfer);
      const isPending = [payment, ...others].some((each) => each?.state === "REFUND_PENDING");
      if (payment === undefined || isPending) continue;
      if ((await refunds.closedBy(network, transfer)) === undefined)
        yield { kind: "surplus", transfer, payment };
    }
  }

  async function* findings(range: MatchedRange) {
    const { asset, payTo, ...rest } = range;
    const wanted = { ...rest, asset: asset as `0x${string}`, payTo: payTo as `0x${string}` };
    for await (const transfers of inPages(chain.transfersTo(wanted), TRANSFERS_AT_ONCE)) {
      yield* await toFindings(transfers, range);
    }
  }

  /**
   * Returns the ids of the calls that the transfers pay for. If a transfer shows no authorization, an operator may have
   * assigned it to a payment.
   */
  async function paidCallIds(
    transfers: readonly Transfer[],
    range: MatchedRange,
  ): Promise<(string | undefined)[]> {
    const taken = await payments.paidBy(range.network, transfers);
    return transfers.map((transfer, i) => paidCallId(transfer, range) ?? taken[i]);
  }

  async function toFindings(transfers: readonly Transfer[], range: MatchedRange) {
    const ids = await paidCallIds(transfers, range);
    const known = await payments.read(ids.filter((id) => id !== undefined));
    const byId = new Map(known.flatMap((payment) => (payment === undefined ? [] : [[payment.id, payment]])));
    return transfers.map((transfer, i) => toFinding(transfer, ids[i], byId.get(ids[i] ?? "")));
  }

  /**
   * Returns whether the chain should have a transfer for this payment in the range, although none was found. The block of the
   * payment's receipt decides, because a payment that was claimed before the range may have been made within it. If no
   * receipt shows the transfer, the block of the claim decides.
   */
  async function isMissing({ settlement, sinceBlock, terms }: PaymentSummary, range: MatchedRange) {
    if (settlement === undefined) return false;
    const authorization = toAuthorization(terms, range.eventOrder);
    const proof = await chain.proofOf(settlement.transaction as `0x${string}`, authorization);
    if (proof === undefined || !showsTransfer(proof, settlement)) return sinceBlock >= range.fromBlock;
    return proof.block >= range.fromBlock && proof.block <= range.toBlock;
  }
}

function toFinding(transfer: Transfer, callId: string | undefined, payment: PaymentSummary | undefined) {
  if (payment === undefined || !hasTermsOf(transfer, payment.terms)) {
    return { kind: "orphan", transfer, callId } as const;
  }
  if (!countsAsPaid(payment.state)) return { kind: "unsettled", transfer, payment } as const;
  return { kind: "matched", transfer, payment } as const;
}

/** Returns the id of the call that this transfer pays for. Undefined if the transfer shows no authorization. */
function paidCallId(
  { authorization }: Transfer,
  { network, asset, method }: MatchedRange,
): string | undefined {
  if (authorization === undefined) return undefined;
  const { authorizer: payer, nonce } = authorization;
  return paymentCallId({ chainId: chainIdOf(network), method, asset, payer, nonce });
}

/**
 * Returns whether the transfer has the payment's sender, recipient and amount. The same nonce is not enough: the payer may
 * have signed another transfer with it.
 */
function hasTermsOf({ from, to, value }: Transfer, { payer, pay_to, amount }: PaymentTerms): boolean {
  return from === payer && to === pay_to.toLowerCase() && value === BigInt(amount);
}

/** Returns whether the payment's refund was exported, in this token. */
function isExported({ refund, terms }: PaymentSummary, { network, asset }: MatchedRange): boolean {
  return (
    refund !== undefined && terms.network === network && terms.asset.toLowerCase() === asset.toLowerCase()
  );
}

/**
 * Returns whether the payment may have been made in the range. It cannot be, if it was claimed after the range. `sinceBlock`
 * is 0 if the chain was not read at the claim. Such a payment is left out, because its block is unknown.
 */
function mayBeInRange(
  { state, settlement, sinceBlock, terms }: PaymentSummary,
  range: MatchedRange,
): boolean {
  return (
    countsAsPaid(state) &&
    settlement !== undefined &&
    sinceBlock > 0n &&
    sinceBlock <= range.toBlock &&
    terms.network === range.network &&
    terms.asset.toLowerCase() === range.asset.toLowerCase() &&
    terms.pay_to.toLowerCase() === range.payTo.toLowerCase()
  );
}
