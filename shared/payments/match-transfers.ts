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

/** The transfers to match: of one token, to one recipient, in a range of blocks, both ends inclusive. */
type MatchedRange = {
  /** CAIP-2. */
  network: string;
  asset: string;
  method: TransferMethod;
  /** Of a token of EIP-3009. */
  eventOrder: EventOrder | undefined;
  payTo: string;
  /** The addresses that pay back. */
  refundFrom: readonly string[];
  fromBlock: bigint;
  toBlock: bigint;
  /** Aborted once nobody wants the rest: it throws. */
  signal?: AbortSignal | undefined;
};

/** A transfer and a payment that do not match. */
export type Mismatch =
  /** A transfer without a payment record. `callId` is the id that the record would have, if the transfer can have one. */
  | { kind: "orphan"; transfer: Transfer; callId: string | undefined }
  /** A transfer for a payment that does not count as paid in the journal. */
  | { kind: "unsettled"; transfer: Transfer; payment: PaymentSummary }
  /** A payment that counts as paid in the journal, in this range, but has no transfer on the chain. */
  | { kind: "missing"; payment: PaymentSummary }
  /** A transfer that pays back a payment whose refund was closed by another transfer, or withdrawn. */
  | { kind: "surplus"; transfer: SentTransfer; payment: PaymentSummary };

export type Finding = Mismatch | { kind: "matched"; transfer: Transfer; payment: PaymentSummary };

const TRANSFERS_AT_ONCE = 100;

/**
 * Matches every transfer to the recipient against the journal, and the journal's payments against the transfers. Throws
 * `payment.unavailable` if the chain cannot be asked.
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
      const isUnseen = !seen.has(payment.id) && mayBeIn(payment, range);
      if (isUnseen && (await isMissing(payment, range))) yield { kind: "missing", payment };
    }
    yield* surplus(range, exported);
  };

  /** Transfers for a case that is still pending are left out: `refund-check` closes it with one of them. */
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
      yield* await judge(transfers, range);
    }
  }

  /** A transfer that shows no authorization may have been taken for a payment by an operator. */
  async function idsOf(transfers: readonly Transfer[], range: MatchedRange): Promise<(string | undefined)[]> {
    const taken = await payments.paidBy(range.network, transfers);
    return transfers.map((transfer, i) => idOf(transfer, range) ?? taken[i]);
  }

  async function judge(transfers: readonly Transfer[], range: MatchedRange) {
    const ids = await idsOf(transfers, range);
    const known = await payments.read(ids.filter((id) => id !== undefined));
    const byId = new Map(known.flatMap((payment) => (payment === undefined ? [] : [[payment.id, payment]])));
    return transfers.map((transfer, i) => toFinding(transfer, ids[i], byId.get(ids[i] ?? "")));
  }

  /** A payment claimed before the range may have been made within it: the chain shows in which block. */
  async function isMissing({ settlement, sinceBlock, terms }: PaymentSummary, range: MatchedRange) {
    if (settlement === undefined) return false;
    const authorization = toAuthorization(terms, range.eventOrder);
    const proof = await chain.proofOf(settlement.transaction as `0x${string}`, authorization);
    if (proof === undefined || !showsTransfer(proof, settlement)) return sinceBlock >= range.fromBlock;
    return proof.block >= range.fromBlock && proof.block <= range.toBlock;
  }
}

function toFinding(transfer: Transfer, callId: string | undefined, payment: PaymentSummary | undefined) {
  if (payment === undefined || !isFor(transfer, payment.terms)) {
    return { kind: "orphan", transfer, callId } as const;
  }
  if (!countsAsPaid(payment.state)) return { kind: "unsettled", transfer, payment } as const;
  return { kind: "matched", transfer, payment } as const;
}

/** The id of the call that this transfer pays for. Undefined if no authorization shows that it was made by one. */
function idOf({ authorization }: Transfer, { network, asset, method }: MatchedRange): string | undefined {
  if (authorization === undefined) return undefined;
  const { authorizer: payer, nonce } = authorization;
  return paymentCallId({ chainId: chainIdOf(network), method, asset, payer, nonce });
}

/** The nonce alone is not enough, because its owner may sign another transfer with it. */
function isFor({ from, to, value }: Transfer, { payer, pay_to, amount }: PaymentTerms): boolean {
  return from === payer && to === pay_to.toLowerCase() && value === BigInt(amount);
}

/** Whether a transfer of this token may pay it back, or has. */
function isExported({ refund, terms }: PaymentSummary, { network, asset }: MatchedRange): boolean {
  return (
    refund !== undefined && terms.network === network && terms.asset.toLowerCase() === asset.toLowerCase()
  );
}

/** A payment claimed after the range cannot be in it. If no chain was asked, `sinceBlock` is 0 and the payment is left out. */
function mayBeIn({ state, settlement, sinceBlock, terms }: PaymentSummary, range: MatchedRange): boolean {
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
