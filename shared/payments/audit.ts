import type { Chain } from "../ethereum/chain.ts";
import { chainIdOf } from "../ethereum/encoding.ts";
import type { Transfer } from "../ethereum/transfers.ts";
import { countsAsPaid, type PaymentList, type PaymentSummary } from "./list.ts";
import type { PaymentTerms, Settlement } from "./payment.ts";
import { paymentCallId } from "./payment-call-id.ts";
import { toAuthorization } from "./terms.ts";

/** One token, to one recipient, in a range of blocks; both ends are part of it. */
export type AuditedRange = {
  /** CAIP-2. */
  network: string;
  asset: string;
  payTo: string;
  fromBlock: bigint;
  toBlock: bigint;
};

/** What does not match. */
export type Mismatch =
  /** Money that no payment record explains; `callId` is what its record would be called. */
  | { kind: "orphan"; transfer: Transfer; callId: string | undefined }
  /** Money for a payment that the journal does not hold to be paid. */
  | { kind: "unsettled"; transfer: Transfer; payment: PaymentSummary }
  /** A payment that the journal holds to be paid, in this range, and whose money the chain does not show. */
  | { kind: "missing"; payment: PaymentSummary };

export type Finding = Mismatch | { kind: "matched"; transfer: Transfer };

type Deps = { chain: Pick<Chain, "transfersTo" | "blockPaidIn">; payments: PaymentList };

const AT_ONCE = 100;

/**
 * Matches every transfer to the recipient against the journal, and the journal's payments against the transfers. Throws
 * `payment.unavailable` where the chain cannot be asked.
 */
export function createMatchTransfers({ chain, payments }: Deps) {
  return async function* matchTransfers(range: AuditedRange): AsyncGenerator<Finding> {
    const seen = new Set<string>();
    for await (const found of findings(range)) {
      if (found.kind !== "orphan") seen.add(idOf(found.transfer, range) ?? "");
      yield found;
    }
    yield* missing(range, seen);
  };

  async function* findings(range: AuditedRange) {
    const { asset, payTo, fromBlock, toBlock } = range;
    const wanted = { asset: asset as `0x${string}`, payTo: payTo as `0x${string}`, fromBlock, toBlock };
    for await (const transfers of inPages(chain.transfersTo(wanted))) yield* await judge(transfers, range);
  }

  async function* missing(range: AuditedRange, seen: ReadonlySet<string>): AsyncGenerator<Mismatch> {
    for await (const payment of payments.matching({})) {
      const isAsked = !seen.has(payment.id) && belongsTo(payment, range);
      if (isAsked && (await isMissing(payment, range))) yield { kind: "missing", payment };
    }
  }

  async function judge(transfers: readonly Transfer[], range: AuditedRange) {
    const ids = transfers.map((transfer) => idOf(transfer, range));
    const known = await payments.read(ids.filter((id) => id !== undefined));
    const byId = new Map(known.flatMap((payment) => (payment === undefined ? [] : [[payment.id, payment]])));
    return transfers.map((transfer, i) => toFinding(transfer, ids[i], byId.get(ids[i] ?? "")));
  }

  /** A payment of an earlier claim than the range may be paid within it: the chain says where it was. */
  async function isMissing({ settlement, sinceBlock, terms }: PaymentSummary, range: AuditedRange) {
    const { transaction } = settlement as Settlement;
    const block = await chain.blockPaidIn(transaction as `0x${string}`, toAuthorization(terms));
    return block === undefined
      ? sinceBlock >= range.fromBlock
      : block >= range.fromBlock && block <= range.toBlock;
  }
}

function toFinding(transfer: Transfer, callId: string | undefined, payment: PaymentSummary | undefined) {
  if (payment === undefined || !isFor(transfer, payment.terms)) {
    return { kind: "orphan", transfer, callId } as const;
  }
  if (!countsAsPaid(payment.state)) return { kind: "unsettled", transfer, payment } as const;
  return { kind: "matched", transfer } as const;
}

/** The id of the call that this transfer pays for; undefined where it was made by no authorization. */
function idOf({ authorization }: Transfer, { network, asset }: AuditedRange): string | undefined {
  if (authorization === undefined) return undefined;
  const { authorizer: payer, nonce } = authorization;
  return paymentCallId({ chainId: chainIdOf(network), asset, payer, nonce });
}

/** A nonce alone says nothing: its owner may sign another transfer with it. */
function isFor({ from, to, value }: Transfer, { payer, pay_to, amount }: PaymentTerms): boolean {
  return from === payer && to === pay_to.toLowerCase() && value === BigInt(amount);
}

/** What was claimed after the range cannot be paid in it. Where no chain was asked, `sinceBlock` is 0 and says nothing. */
function belongsTo({ state, settlement, sinceBlock, terms }: PaymentSummary, range: AuditedRange): boolean {
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

async function* inPages(transfers: AsyncGenerator<Transfer>): AsyncGenerator<Transfer[]> {
  let page: Transfer[] = [];
  for await (const transfer of transfers) {
    page.push(transfer);
    if (page.length < AT_ONCE) continue;
    yield page;
    page = [];
  }
  yield page;
}
