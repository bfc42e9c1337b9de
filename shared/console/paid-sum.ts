import { z } from "zod";
import type { PaymentSummary } from "../payments/list.ts";
import { obstacleOf } from "../payments/refunds.ts";
import type { DecimalsOf } from "./tokens.ts";
import { count } from "./view.ts";

const TokenAmount = z
  .object({
    /** Network of the token, as a CAIP-2 id. */
    network: z.string(),
    asset: z.string(),
    symbol: z.string(),
    /** Decimals of the token; null if the token is not configured. */
    decimals: count.nullable(),
    /** Amount in the token's smallest units, as a decimal string. */
    amount: z.string(),
  })
  .meta({ id: "TokenAmount" });
export type TokenAmount = z.infer<typeof TokenAmount>;

const Sum = z.object({ calls: count, amounts: z.array(TokenAmount) }).meta({ id: "PaidAmounts" });

/** Sums of the payments for some calls, one for each token. Payments of amount 0 are left out. */
export const PaidSum = z
  .object({
    /** Payments that the chain has confirmed, or that an operator has decided were made. */
    confirmed: Sum,
    /**
     * Payments that the chain contradicts, or has not confirmed yet with the configured number of blocks
     * (`confirmations`).
     */
    unconfirmed: Sum,
    /** Number of paid calls whose amount cannot be read. The sums do not include them. */
    unreadable: count,
  })
  .meta({ id: "PaidSum" });
export type PaidSum = z.infer<typeof PaidSum>;

/** A sum from which some payments may be missing. */
export const PartialSum = PaidSum.extend({
  /** False if payments may be missing. Each number is then a minimum. */
  is_whole: z.boolean(),
}).meta({ id: "PartialPaidSum" });
export type PartialSum = z.infer<typeof PartialSum>;

export type Adding = {
  /** Adds a payment. `undefined` is a paid call whose payment is missing. It counts as unreadable. */
  add(payment: PaymentSummary | undefined): void;
  sum(): PaidSum;
};

/** Adds up payments, starting with the sums of `before`. */
export function createPaidSum(decimalsOf: DecimalsOf, before?: PaidSum | null): Adding {
  const sum: PaidSum = before == null ? nothing() : structuredClone(before);
  return {
    add(payment) {
      const of = payment === undefined ? "unreadable" : SUM_OF[obstacleOf(payment) ?? "none"];
      if (of === undefined) return;
      if (payment === undefined || of === "unreadable") sum.unreadable += 1;
      else addTo(sum[of], payment.terms, decimalsOf);
    },
    sum: () => structuredClone(sum),
  };
}

const SUM_OF = {
  none: "confirmed",
  "effect unknown": "confirmed",
  disputed: "unconfirmed",
  "not confirmed": "unconfirmed",
  unreadable: "unreadable",
  "zero amount": undefined,
} as const;

function nothing(): PaidSum {
  return { confirmed: { calls: 0, amounts: [] }, unconfirmed: { calls: 0, amounts: [] }, unreadable: 0 };
}

function addTo(sum: z.infer<typeof Sum>, terms: PaymentSummary["terms"], decimalsOf: DecimalsOf): void {
  const { network, symbol, amount } = terms;
  const asset = terms.asset.toLowerCase();
  sum.calls += 1;
  const known = sum.amounts.find((each) => each.network === network && each.asset === asset);
  if (known !== undefined) known.amount = String(BigInt(known.amount) + BigInt(amount));
  else sum.amounts.push({ network, asset, symbol, decimals: decimalsOf(terms) ?? null, amount });
}
