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

/** The transfers to match: one token, one recipient, a range of blocks with both ends included. */
type MatchedRange = {
  /** CAIP-2. */
  network: string;
  asset: string;
  method: TransferMethod;
  /** The event order of an EIP-3009 token. */
  eventOrder: EventOrder | undefined;
  payTo: string;
  /** The addresses that pay refunds. */
  refundFrom: readonly string[];
  fromBlock: bigint;
  toBlock: bigint;
  /** Aborted when the caller needs no further results. The search then throws. */
  signal?: AbortSignal | undefined;
};

/** A transfer or a payment without its counterpart. */
export type Mismatch =
  /**
   * A transfer without a payment record. `callId` is the id that the record would have. Undefined if the transfer shows no authorization.
   */
  | { kind: "orphan"; transfer: Transfer; callId: string | undefined }
  /** A transfer for a payment that does not count as paid in the journal. */
  | { kind: "unsettled"; transfer: Transfer; payment: PaymentSummary }
  /** A payment that was made in this range according to the journal, but has no transfer on the chain. */
  | { kind: "missing"; payment: PaymentSummary }
  /** A transfer that refunds a payment whose case was closed by another transfer, or withdrawn. */
  | { kind: "surplus"; transfer: SentTransfer; payment: PaymentSummary };

export type Finding = Mismatch | { kind: "matched"; transfer: Transfer; payment: PaymentSummary };

const TRANSFERS_AT_ONCE = 100;

/**
 * Matches every transfer to the recipient with the journal, and the journal's payments with the transfers. Throws `payment.unavailable` if
 * the chain cannot be read.
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
   * Yields refunds without a case. A transfer that fits a pending case is left out: `refund-check` will close the case with such a
   * transfer.
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

  /** The call ids of the transfers. An operator may have assigned a transfer to a payment although the transfer shows no authorization. */
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
   * Whether a payment without a matching transfer should have one in this range. The block of its receipt decides, because a payment
   * claimed before the range may have been made within it. If no receipt shows the transfer, the block of the claim decides.
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

/** The id of the call that this transfer pays for. Undefined if the transfer shows no authorization. */
function paidCallId(
  { authorization }: Transfer,
  { network, asset, method }: MatchedRange,
): string | undefined {
  if (authorization === undefined) return undefined;
  const { authorizer: payer, nonce } = authorization;
  return paymentCallId({ chainId: chainIdOf(network), method, asset, payer, nonce });
}

/** Whether the transfer has the payment's terms. The nonce alone is not enough: the payer may sign another transfer with it. */
function hasTermsOf({ from, to, value }: Transfer, { payer, pay_to, amount }: PaymentTerms): boolean {
  return from === payer && to === pay_to.toLowerCase() && value === BigInt(amount);
}

/** Whether the payment's refund was exported in this token. */
function isExported({ refund, terms }: PaymentSummary, { network, asset }: MatchedRange): boolean {
  return (
    refund !== undefined && terms.network === network && terms.asset.toLowerCase() === asset.toLowerCase()
  );
}

/**
 * Whether the payment may have been made in the range. A payment claimed after the range cannot be in it. `sinceBlock` is 0 if no chain was
 * read, and the payment is then left out.
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
