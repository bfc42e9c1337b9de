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
};

export type PaymentDetail = Payment & {
  decided: Decision | null;
  acknowledged: Decision | null;
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
  /** What an operator may do about it, as "settle" or "acknowledge". */
  actions: string[];
};

/** A payment whose call failed or was discarded, or whose refund is exported. */
export type RefundCase = Payment & {
  /** Why it is not simply to be paid back. */
  obstacle: string | null;
};

export type AuditTransfer = {
  transaction: string;
  block: string;
  from: string;
  amount: string;
  nonce: string | null;
};

/** What the chain shows of one token, against the journal. */
export type TokenAudit = {
  network: string;
  asset: string;
  symbol: string;
  decimals: number;
  pay_to: string;
  from_block: string;
  to_block: string;
  matched: number;
  orphans: (AuditTransfer & { call_id: string | null })[];
  unsettled: (AuditTransfer & { payment: Payment })[];
  missing: { payment: Payment }[];
  /** So many more do not match, and are not listed. */
  more: number;
};

/** An audit of the money, as far as it is. */
export type AuditRun = {
  id: string;
  state: "waiting" | "running" | "cancelling" | "done" | "stopped" | "cancelled";
  by: string;
  begun_at: string;
  ended_at: string | null;
  failure: { code: string; reason: string } | null;
  result: { tokens: TokenAudit[] } | null;
};

export type PaymentPage = { payments: Payment[]; next: string | null };

export type Verdict = "settled" | "void" | "acknowledged";

export const resolvePayment = (
  id: string,
  wish: { verdict: Verdict; transaction?: string; reason: string },
): Promise<unknown> => ask("POST", `api/v1/payments/${encodeURIComponent(id)}/resolve`, { body: wish });

/** What the payments of a job brought in a token on a day (UTC). */
export type Earned = {
  day: string;
  network: string;
  asset: string;
  symbol: string | null;
  decimals: number | null;
  job: string | null;
  payments: number;
  amount: string;
};
