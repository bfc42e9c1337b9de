import type { Authorization } from "../ethereum/token-events.ts";
import { callIdFrom } from "../job-call/call-id.ts";
import { JobCall } from "../job-call/job-call.ts";

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

/** A new payment as the fields of its hash, names and values by turns. */
export function fieldsOf(payment: NewPayment, now: number): (string | number)[] {
  const { call, terms, request, facilitator, sinceBlock, identifier, callerNonce } = payment;
  const fields = [
    ["call", JSON.stringify(call)],
    ["terms", JSON.stringify(terms)],
    ["request", JSON.stringify(request)],
    ["facilitator", facilitator],
    ["since_block", String(sinceBlock)],
    ["dispatches", 1],
    ["dispatched_at", now],
    ["claimed_at", now],
    ...(identifier === undefined ? [] : [["identifier", identifier]]),
    ...(callerNonce === undefined ? [] : [["caller_nonce", callerNonce.hash]]),
  ];
  return fields.flat() as (string | number)[];
}

/** The payment of these two hashes, each a list of names and values by turns; undefined where there is none. */
export function toPayment(
  id: string,
  [recordFields, paymentFields]: [string[], string[]],
): Payment | undefined {
  const record = toObject(recordFields);
  const payment = toObject(paymentFields);
  if (record["st"] === undefined || payment["terms"] === undefined) return undefined;
  const settlement = parsed<Settlement>(payment["settlement"]);
  return {
    id,
    state: record["st"] as PaymentState,
    terms: JSON.parse(payment["terms"]) as PaymentTerms,
    call: payment["call"] === undefined ? undefined : JobCall.parse(JSON.parse(payment["call"])),
    request: parsed<FacilitatorRequest>(payment["request"]),
    facilitator: payment["facilitator"] ?? "",
    sinceBlock: BigInt(payment["since_block"] ?? 0),
    dispatches: Number(payment["dispatches"]),
    dispatchedAt: Number(payment["dispatched_at"]),
    claimedAt: Number(payment["claimed_at"]),
    changedAt: Number(record["at"]),
    settlement,
    proven: payment["proven"] === "1",
    reason: payment["reason"],
    decided: settlement?.decided ?? parsed<Decision>(payment["decided"]),
    identifier: payment["identifier"],
    callerNonce: payment["caller_nonce"],
    bodySha256: record["bh"] ?? "",
    route: record["rt"] ?? "",
  };
}

function parsed<Value>(text: string | undefined): Value | undefined {
  return text === undefined ? undefined : (JSON.parse(text) as Value);
}

function toObject(fields: readonly string[]): Record<string, string> {
  const object: Record<string, string> = {};
  for (let i = 0; i + 1 < fields.length; i += 2) object[fields[i] as string] = fields[i + 1] as string;
  return object;
}

/** What the payer signed, as the chain is asked about it. */
export function toAuthorization(terms: PaymentTerms): Authorization {
  return {
    asset: terms.asset as `0x${string}`,
    from: terms.payer as `0x${string}`,
    to: terms.pay_to as `0x${string}`,
    value: BigInt(terms.amount),
    nonce: terms.nonce as `0x${string}`,
    validAfter: BigInt(terms.valid_after),
    validBefore: BigInt(terms.valid_before),
  };
}

/** How this payment is known to have happened, as its client is told. */
export function toSettlement(
  { terms, request }: Pick<Payment, "terms" | "request">,
  { transaction, by }: Pick<Settlement, "transaction" | "by">,
): Settlement {
  // In version 1 the client knows the network by a name of its own.
  const asked = request?.paymentRequirements as { network?: unknown } | undefined;
  const network = typeof asked?.network === "string" ? asked.network : terms.network;
  return { transaction, network, payer: terms.payer, by };
}

/** What tells one payment from all others (EIP-3009): its token, its payer and the nonce its payer chose. */
type PaymentIdentity = { chainId: number; asset: string; payer: string; nonce: string };

/** The call id of a payment: known before it settles, on every replica, and from the chain alone once it has. */
export function paymentCallId({ chainId, asset, payer, nonce }: PaymentIdentity): string {
  return callIdFrom(String(chainId), asset.toLowerCase(), payer.toLowerCase(), nonce.toLowerCase());
}
