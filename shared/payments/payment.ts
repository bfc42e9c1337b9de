import { z } from "zod";
import { callIdFrom, callIdInPartitionOf } from "../call/call-id.ts";
import { JobCall, toJson } from "../call/job-call.ts";
import { jobKey } from "../call/job-ids.ts";
import { STATES, type State, toState } from "../call/record-state.ts";
import {
  methodOnChain,
  type TokenAuthorization,
  TRANSFER_METHODS,
  type TransferMethod,
} from "../chain/payment-schemes.ts";
import type { EventOrder, ReceiptEvidence } from "../chain/proof.ts";
import { messageOf } from "../platform/errors/app-error.ts";
import { traceFields } from "../platform/text/trace-id.ts";
import { toObject } from "../redis/pages.ts";
import { unreadable } from "../redis/unreadable.ts";
import { dayOf, rowOf } from "../telemetry/series/series.ts";

/**
 * The states of a paid call, stored in its one record (`{postern}:call:<id>`). A state only moves forward, except that
 * a replay changes FAILED to QUEUED:
 *
 *   (none) ─claim─► SETTLING ─paid─► QUEUED ─► INJECTED | FAILED
 *                      │  └─ evidence contradicts ─► REVIEW ─ an operator decides ─► QUEUED | VOID
 *                      └─ proven never to pay ─► VOID
 *
 *   FAILED ─replayed─► QUEUED      FAILED ─discarded─► DISCARDED
 *
 *   SETTLING | REVIEW, after an operator has dropped the body ─paid─► DISCARDED: the call never runs, and its refund is due
 *
 *   FAILED | DISCARDED ─exported─► REFUND_PENDING ─refunded─► REFUNDED      (refunds.ts)
 *
 * From QUEUED on, a paid call is like any other call (shared/queue/protocol.ts). A record expires only in a final state.
 */
export const PAYMENT_STATES = STATES;
export type PaymentState = State;

const decimal = z.string().regex(/^\d+$/);

/** The terms that the payer signed, and the job that they pay for. Amounts and times are decimal strings, addresses and nonce 0x hex. */
export const PaymentTerms = z.object({
  service_id: z.int().min(0),
  job_index: z.int().min(0),
  /** CAIP-2. */
  network: z.string(),
  asset: z.string(),
  symbol: z.string(),
  pay_to: z.string(),
  payer: z.string(),
  nonce: z.string(),
  amount: decimal,
  /** Unix seconds. */
  valid_after: decimal,
  valid_before: decimal,
  quote_digest: z.string(),
  x402_version: z.literal([1, 2]),
  transfer_method: z.enum(TRANSFER_METHODS),
  /** The size of the request's body. */
  body_bytes: z.int().min(0),
});
export type PaymentTerms = z.infer<typeof PaymentTerms>;

/**
 * The body of a request to a facilitator: the client's payment and the offer that it accepted. The gateway builds `payload`, `resource` and
 * the job's data in the extensions. All other fields are as the client sent them.
 */
export type FacilitatorRequest = {
  x402Version: 1 | 2;
  paymentPayload: unknown;
  paymentRequirements: unknown;
};

const texts = new WeakMap<FacilitatorRequest, string>();

/** The request as JSON, for the facilitator and for the journal. It is serialized once, so the request must not change after that. */
export function requestText(request: FacilitatorRequest): string {
  const known = texts.get(request);
  if (known !== undefined) return known;
  const { x402Version, paymentPayload, paymentRequirements } = request;
  const text = JSON.stringify({ x402Version, paymentPayload, paymentRequirements });
  texts.set(request, text);
  return text;
}

/**
 * An operator's decision on a payment in REVIEW, or acknowledgement of a disputed one. The reason is internal and is never shown to the
 * payer.
 */
export type Decision = {
  /** `user@host`. */
  by: string;
  reason: string;
};

/** Evidence that the payment was made. */
export type Settlement = {
  transaction: string;
  /** The network as the client sees it: CAIP-2, or the network's name in version 1. */
  network: string;
  payer: string;
  by: "facilitator" | "chain" | "operator";
  /** The position of the transfer among the logs of its receipt (`positionIn`), if the chain has shown it. */
  position?: number;
  decided?: Decision;
};

/** The export that contains the payment's refund. */
export type Refund = {
  export: string;
  /** Unix ms. */
  at: number;
  /** The chain's head at that time, as a decimal string. */
  block: string;
};

/** The transfer that has refunded the payment. `block` is a decimal string. */
export type RefundTransfer = { transaction: string; position: number; block: string; from: string };

/** Whether an attempt at the call may have had an effect. `none` is certain. */
export type Effect = "none" | "unknown";

/**
 * All data that a gateway needs to finish a payment. `call` lacks the fields that are known only after settlement. Times are unix ms by
 * Redis' clock.
 */
export type Payment = {
  id: string;
  state: PaymentState;
  terms: PaymentTerms;
  /** Absent once the call has ended, and after `findWithoutCall`. */
  call: JobCall | undefined;
  /** The size of the call in the journal. 0 once the call has ended. */
  callBytes: number;
  request: FacilitatorRequest | undefined;
  /** The facilitator that was asked to settle. */
  facilitator: string;
  /** A block before the claim: the payment cannot be in an earlier block. 0 if no chain was read. */
  sinceBlock: bigint;
  /** The last block up to which a search found no use of the authorization. */
  searched: bigint | undefined;
  dispatches: number;
  dispatchedAt: number;
  claimedAt: number;
  /** When the payment was read, by Redis' clock. Ages are computed from this time, so that this process's clock does not matter. */
  readAt: number;
  /** The time of the last change of state. */
  changedAt: number;
  settlement: Settlement | undefined;
  /** When the settlement was recorded, and the call added to its queue. */
  settledAt?: number | undefined;
  /** Whether the chain has shown the payment at the configured depth. */
  proven: boolean;
  /** Why the payment is VOID or in REVIEW, or which evidence contradicts it. */
  reason: string | undefined;
  /** The operator's decision that ended the REVIEW. */
  decided?: Decision | undefined;
  /** The operator who has acknowledged the evidence against the payment, and why. */
  acknowledged?: Decision | undefined;
  /** The operator who has deleted the call's body before settlement. No settle request is sent after that, and the call never runs. */
  dropped?: Decision | undefined;
  /** Identifier of the purchase: chosen by the client in version 2, a hash of the payment in version 1. */
  identifier: string | undefined;
  /** The name of the purchase, from the request's `Idempotency-Key`. */
  idempotencyKey: string | undefined;
  /**
   * If a contract signed, one hash of the signed digest together with the signature. It identifies the payment even if
   * the contract no longer accepts the signature.
   */
  signedSha256: string | undefined;
  /** The hash of the caller's nonce that this payment used up. */
  callerNonce: string | undefined;
  bodySha256: string;
  route: string;
  /** Whether the runner's answer is kept. */
  keepsResult: boolean;
  effect: Effect;
  refund: Refund | undefined;
  refunded: RefundTransfer | undefined;
  /** When the runner took the call, if its refund was exported before. Otherwise undefined. */
  lateAt: number | undefined;
};

/** A payment about to be claimed. */
export type NewPayment = {
  call: JobCall;
  terms: PaymentTerms;
  request: FacilitatorRequest;
  facilitator: string;
  sinceBlock: bigint;
  route: string;
  /** Identifier of the purchase: chosen by the client in version 2, a hash of the payment in version 1. */
  identifier: string | undefined;
  /** The name of the purchase, from the request's `Idempotency-Key`: an identifier, or `key:` and the key's SHA-256. */
  idempotencyKey: string | undefined;
  /** If a contract signed, one hash of the signed digest together with the signature. */
  signedSha256: string | undefined;
  /** A caller's nonce that this payment uses up. It is remembered until `keptUntil` (unix ms by Redis' clock). */
  callerNonce: { hash: string; keptUntil: number } | undefined;
  /** An operator's quote that this payment uses up. */
  quoteUse: { digest: string; keptUntil: number } | undefined;
};

/** The fields of a new payment's hash without its times, as a flat list in which names and values alternate. */
export function fieldsOf(payment: NewPayment): (string | number | Buffer)[] {
  const { call, terms, request, facilitator, sinceBlock, callerNonce } = payment;
  const { identifier, idempotencyKey, signedSha256 } = payment;
  const fields = [
    ["call", toJson(call)],
    ["terms", JSON.stringify(terms)],
    ["request", requestText(request)],
    ["facilitator", facilitator],
    ["since_block", String(sinceBlock)],
    ["dispatches", 1],
    ...(call.keep_result ? [["keeps_result", 1]] : []),
    ...(identifier === undefined ? [] : [["identifier", identifier]]),
    ...(idempotencyKey === undefined ? [] : [["idempotency_key", idempotencyKey]]),
    ...(signedSha256 === undefined ? [] : [["signed_sha256", signedSha256]]),
    ...(callerNonce === undefined ? [] : [["caller_nonce", callerNonce.hash]]),
  ];
  return fields.flat() as (string | number | Buffer)[];
}

/**
 * Decodes a payment from its record and its hash, each a flat list of names and values, and the time of the read. Undefined if the record
 * or the hash is missing. Throws `record.unreadable` if the stored data is no payment.
 */
export function toPayment(
  id: string,
  [recordFields, paymentFields, readAt]: [string[], string[], number],
): Payment | undefined {
  const record = toObject(recordFields);
  const payment = toObject(paymentFields);
  if (record["st"] === undefined || payment["terms"] === undefined) return undefined;
  try {
    return { ...read(id, record, payment), readAt };
  } catch (cause) {
    throw unreadable(`the stored payment ${id} (${messageOf(cause)})`, cause);
  }
}

type Fields = Record<string, string | undefined>;

function read(id: string, record: Fields, payment: Fields): Omit<Payment, "readAt"> {
  const settlement = parsed<Settlement>(payment["settlement"]);
  return {
    id,
    state: toState(id, record["st"] ?? ""),
    terms: PaymentTerms.parse(JSON.parse(payment["terms"] ?? "")),
    call: payment["call"] === undefined ? undefined : JobCall.parse(JSON.parse(payment["call"])),
    callBytes: Number(payment["call_bytes"] ?? Buffer.byteLength(payment["call"] ?? "")),
    request: parsed<FacilitatorRequest>(payment["request"]),
    facilitator: payment["facilitator"] ?? "",
    sinceBlock: BigInt(payment["since_block"] ?? 0),
    searched: payment["searched"] === undefined ? undefined : BigInt(payment["searched"]),
    dispatches: Number(payment["dispatches"]),
    dispatchedAt: Number(payment["dispatched_at"]),
    claimedAt: Number(payment["claimed_at"]),
    changedAt: Number(record["at"]),
    settlement,
    settledAt: payment["settled_at"] === undefined ? undefined : Number(payment["settled_at"]),
    proven: payment["proven"] === "1",
    reason: payment["reason"],
    decided: settlement?.decided ?? parsed<Decision>(payment["decided"]),
    acknowledged: parsed<Decision>(payment["acknowledged"]),
    dropped: parsed<Decision>(payment["dropped"]),
    identifier: payment["identifier"],
    idempotencyKey: payment["idempotency_key"],
    signedSha256: payment["signed_sha256"],
    callerNonce: payment["caller_nonce"],
    bodySha256: record["bh"] ?? "",
    route: record["rt"] ?? "",
    keepsResult: payment["keeps_result"] === "1",
    effect: toEffect(record["unsure"]),
    refund: parsed<Refund>(payment["refund"]),
    refunded: parsed<RefundTransfer>(payment["refunded"]),
    lateAt: record["late"] === undefined ? undefined : Number(record["late"]),
  };
}

/** Decodes the record's field `unsure` (shared/queue/protocol.ts). Without this field, it is unknown whether an attempt had an effect. */
export function toEffect(unsure: string | null | undefined): Effect {
  return unsure === "0" ? "none" : "unknown";
}

function parsed<Value>(text: string | undefined): Value | undefined {
  return text === undefined ? undefined : (JSON.parse(text) as Value);
}

/** Returns the authorization to search for on the chain. `eventOrder` is the order of events of a token with EIP-3009. */
export function toAuthorization(
  terms: Omit<PaymentTerms, "quote_digest" | "x402_version" | "body_bytes">,
  eventOrder: EventOrder = "used_first",
): TokenAuthorization {
  return {
    method: terms.transfer_method,
    eventOrder,
    asset: terms.asset as `0x${string}`,
    from: terms.payer as `0x${string}`,
    to: terms.pay_to as `0x${string}`,
    value: BigInt(terms.amount),
    nonce: terms.nonce as `0x${string}`,
    validAfter: BigInt(terms.valid_after),
    validBefore: BigInt(terms.valid_before),
  };
}

/**
 * Whether the proof shows the settlement's transfer. If the receipt does not show which transfer used the authorization, the
 * transfer that an operator has assigned counts.
 */
export function showsTransfer(proof: ReceiptEvidence, { by, position }: Settlement): boolean {
  if (proof.kind === "paid") return true;
  return proof.kind === "wrapped" && by === "operator" && proof.positions.some((each) => each === position);
}

/** The settlement as the client sees it. */
export function toSettlement(
  { terms, request }: Pick<Payment, "terms" | "request">,
  known: Pick<Settlement, "transaction" | "by" | "position">,
): Settlement {
  // In version 1 the offer calls the network by a name, and the client expects that name.
  const asked = request?.paymentRequirements as { network?: unknown } | undefined;
  const network = typeof asked?.network === "string" ? asked.network : terms.network;
  return { network, payer: terms.payer, ...known };
}

/**
 * The fields of the log event `payment.settled`, from which revenue is counted. It is logged once, with the write that queues the
 * call.
 */
export function settledFields(
  { id, terms, call }: Pick<Payment, "id" | "terms" | "call">,
  { transaction, by }: Pick<Settlement, "transaction" | "by">,
) {
  const trace = traceFields(call?.traceparent);
  const { service_id: serviceId, job_index: jobIndex, network, asset, symbol, amount } = terms;
  return { callId: id, serviceId, jobIndex, network, asset, symbol, amount, transaction, by, ...trace };
}

/** How a payment counts as revenue: the day (UTC) of its settlement, its row (token and job), and the amount. */
export function revenueOf({ terms, settledAt, claimedAt }: Payment) {
  const { network, asset, amount, service_id: serviceId, job_index: jobIndex } = terms;
  const row = rowOf({ network, asset, job: jobKey({ serviceId, jobIndex }) });
  return { day: dayOf(settledAt ?? claimedAt), row, amount };
}

/**
 * The call id of a payment. It is derived from the payer, the nonce that the payer chose, and the contract that accepts this nonce once.
 * That contract is the token (EIP-3009), or Permit2 for all its tokens. So every gateway knows the id before the payment settles, and the
 * chain alone is enough to compute it later. All payments of a payer are in one partition, so that one script can count the open ones.
 * docs/payments.md has a test vector.
 */
export function paymentCallId({
  chainId,
  method,
  asset,
  payer,
  nonce,
}: {
  chainId: number;
  method: TransferMethod;
  asset: string;
  payer: string;
  /** 32 bytes in hex. */
  nonce: string;
}): string {
  const contract = methodOnChain(method).nonceContract(asset);
  return callIdInPartitionOf(
    routeOfPayer(payer),
    String(chainId),
    contract.toLowerCase(),
    payer.toLowerCase(),
    nonce.toLowerCase(),
  );
}

/** An id that leads to the partition with all payments of this payer. */
export function routeOfPayer(payer: string): string {
  return callIdFrom(payer.toLowerCase());
}

/** A payment that has moved money, in any state. */
export type SettledPayment = Payment & { settlement: Settlement };

export function hasSettlement(payment: Payment): payment is SettledPayment {
  return payment.settlement !== undefined;
}
