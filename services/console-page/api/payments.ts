import { ask } from "./ask.ts";

/** What the payer has signed, and what it pays for. Amounts are decimal strings of the smallest units. */
export type PaymentTerms = {
  service_id: number;
  job_index: number;
  /** CAIP-2. */
  network: string;
  asset: string;
  symbol: string;
  pay_to: string;
  payer: string;
  nonce: string;
  amount: string;
  /** Unix seconds. */
  valid_after: string;
  valid_before: string;
};

export type Decision = { by: string; reason: string };

export type Payment = {
  call_id: string;
  state: string;
  claimed_at: string;
  changed_at: string;
  terms: PaymentTerms;
  /** Of its token; null if it is not configured (any more). */
  decimals: number | null;
  settlement: { transaction: string; by: string } | null;
  proven: boolean;
  disputed: boolean;
  dispatches: number;
  since_block: string;
  reason: string | null;
  /** Whether an attempt may have done the job. */
  effect: "none" | "unknown";
  refund: { export: string; at: number; block: string } | null;
  refunded: { transaction: string; block: string; from: string } | null;
  late_at: string | null;
  actions: PaymentAction[];
};

export type PaymentDetail = Payment & {
  decided: Decision | null;
  acknowledged: Decision | null;
  dropped: Decision | null;
  facilitator: string;
  dispatched_at: string;
  payment_identifier: string | null;
  route: string;
  body_sha256: string;
  body_kept: boolean;
  content_type: string | null;
  /** What its state says of the money and of the job. */
  meaning: string;
  /** What is known of whether it is paid, and of what its job did, one sentence each. */
  evidence: string[];
};

/** What an operator may do about a payment, or about its call. */
export type PaymentAction =
  | "reconcile"
  | "settle"
  | "void"
  | "acknowledge"
  | "drop"
  | "replay"
  | "discard"
  | "refund"
  | "refund-check"
  | "refund-withdraw";

export type PaymentPage = { payments: Payment[]; next: string | null };

export type Verdict = "settled" | "void" | "acknowledged" | "dropped";

export const resolvePayment = (
  id: string,
  wish: { verdict: Verdict; transaction?: string; reason: string },
): Promise<unknown> => ask("POST", `api/v1/payments/${encodeURIComponent(id)}/resolve`, { body: wish });

/** What came of a look that a gateway was asked for. */
export type Reconciled = { state_before: string | null; state: string | null; looked: boolean | null };

/** Has a gateway look at a payment now. */
export const reconcilePayment = (id: string): Promise<Reconciled> =>
  ask<Reconciled>("POST", `api/v1/payments/${encodeURIComponent(id)}/reconcile`, { body: {} });

/** Ends a pending refund whose call the runner has taken after its export. */
export const withdrawRefund = (id: string, reason: string): Promise<unknown> =>
  ask("POST", `api/v1/payments/${encodeURIComponent(id)}/withdraw-refund`, { body: { reason } });

/** A sum in one token, in its smallest units. */
export type TokenAmount = {
  network: string;
  asset: string;
  symbol: string;
  decimals: number | null;
  amount: string;
};

export type Sum = { calls: number; amounts: TokenAmount[] };

/** What was paid for some calls, for each token. */
export type PaidSum = {
  confirmed: Sum;
  /** The chain contradicts these payments, or has not shown them (yet). */
  unconfirmed: Sum;
  /** How many calls are paid for with an amount that cannot be read. */
  unreadable: number;
};

/** `is_whole` is false if payments may be missing: each number is then at least so large. */
export type PartialSum = PaidSum & { is_whole: boolean };

/** What was paid for calls that were not done: that failed, that were discarded, whose refund is exported. */
export type RefundTotals = { failed: PartialSum; due: PartialSum; exported: PartialSum };

/** How many paid calls a sum is about. */
export const callsIn = ({ confirmed, unconfirmed, unreadable }: PaidSum): number =>
  confirmed.calls + unconfirmed.calls + unreadable;

/** How many paid calls were not done and wait for somebody. */
export const notDoneIn = ({ failed, due }: RefundTotals): { count: number; isAtLeast: boolean } => ({
  count: callsIn(failed) + callsIn(due),
  isAtLeast: !failed.is_whole || !due.is_whole,
});

/** Payments and refunds of a job in a token on a day (UTC). Amounts are in the token's smallest units. */
export type Earned = {
  day: string;
  network: string;
  asset: string;
  symbol: string | null;
  decimals: number | null;
  job: string | null;
  payments: number;
  amount: string;
  refunds: number;
  refunded: string;
};
