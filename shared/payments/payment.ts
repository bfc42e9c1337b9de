import type { JobCall } from "../job-call/job-call.ts";

/**
 * The states of a paid call, in one record (`{postern}:call:<id>`) that only moves forward:
 *
 *   (none) ─claim─► SETTLING ─paid─► SETTLED ─added─► QUEUED ─► INJECTED | FAILED ◄─► | DISCARDED
 *                      │  └─ evidence contradicts ─► REVIEW ─ an operator decides ─► SETTLED | VOID
 *                      └─ proven never to pay ─► VOID
 *
 * From QUEUED on it is a call like any other (shared/queue/call-record.ts). Nothing that is not final ever expires.
 */
export type PaymentState =
  | "SETTLING"
  | "SETTLED"
  | "QUEUED"
  | "FAILED"
  | "INJECTED"
  | "DISCARDED"
  | "VOID"
  | "REVIEW";

/** What was signed, and for what. Amounts and times are decimal strings, addresses and nonce 0x hex. */
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
  quote_digest: string;
  x402_version: 1 | 2;
  /** Of the request's body. */
  body_bytes: number;
};

/** What a facilitator is asked with: the payload as the client sent it, nothing left out, and what it was offered. */
export type FacilitatorRequest = {
  x402Version: 1 | 2;
  paymentPayload: unknown;
  paymentRequirements: unknown;
};

/** An operator's word on a payment in REVIEW. The reason is the operator's own: no payer is told it. */
export type Decision = {
  /** `user@host`. */
  by: string;
  reason: string;
};

/** How the payment is known to have happened. */
export type Settlement = {
  transaction: string;
  /** CAIP-2, or the network's name in version 1, as the client is to read it. */
  network: string;
  payer: string;
  by: "facilitator" | "chain" | "operator";
  decided?: Decision;
};

/** All that is needed to finish a payment, whoever does it. `call` lacks what is only known once it is settled. */
export type Payment = {
  id: string;
  state: PaymentState;
  terms: PaymentTerms;
  /** Absent once the call has ended. */
  call: JobCall | undefined;
  request: FacilitatorRequest | undefined;
  /** The facilitator that was asked to settle. */
  facilitator: string;
  /** A block before the claim: no earlier one can hold the payment. */
  sinceBlock: bigint;
  dispatches: number;
  dispatchedAt: number;
  claimedAt: number;
  /** When the state changed last. */
  changedAt: number;
  settlement: Settlement | undefined;
  /** Whether the chain has shown the payment at the configured depth. */
  proven: boolean;
  /** Why it is VOID or in REVIEW, or what contradicts it. */
  reason: string | undefined;
  /** What ended its REVIEW. */
  decided?: Decision | undefined;
  /** The client's own identifier of what it pays for. */
  identifier: string | undefined;
  /** The hash of the caller's nonce that it used up. */
  callerNonce: string | undefined;
  bodySha256: string;
  route: string;
};

/** A payment about to be claimed. */
export type NewPayment = {
  call: JobCall;
  terms: PaymentTerms;
  request: FacilitatorRequest;
  facilitator: string;
  sinceBlock: bigint;
  route: string;
  /** The client's own identifier of what it pays for. */
  identifier: string | undefined;
  /** A caller's nonce that this payment uses up. */
  callerNonce: { hash: string; ttlMs: number } | undefined;
  /** An operator's quote that this payment uses up. */
  quoteUse: { digest: string; ttlMs: number } | undefined;
};
