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

/**
 * The terms that the payer signed, and the job that they pay for. Amounts and times are decimal strings. Addresses and the
 * nonce are hex with 0x.
 */
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
 * The body of a request to a facilitator: the client's payment, and the offer that the client accepted. The gateway itself
 * builds `payload`, `resource` and the job's data in the extensions. All other fields are as the client sent them.
 */
export type FacilitatorRequest = {
  x402Version: 1 | 2;
  paymentPayload: unknown;
  paymentRequirements: unknown;
};

const texts = new WeakMap<FacilitatorRequest, string>();

/**
 * Returns the request as JSON, for the facilitator and for the journal. A request is serialized only once, so it must not be
 * changed after the first call.
 */
export function requestText(request: FacilitatorRequest): string {
  const known = texts.get(request);
  if (known !== undefined) return known;
  const { x402Version, paymentPayload, paymentRequirements } = request;
  const text = JSON.stringify({ x402Version, paymentPayload, paymentRequirements });
  texts.set(request, text);
  return text;
}

/**
 * An operator's decision on a payment in REVIEW, or acknowledgement of a disputed one. The reason is internal and is never
 * shown to the payer.
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
  /** The position of the transfer's event among the logs of its receipt (`positionIn`). Absent until the chain has shown it. */
  position?: number;
  decided?: Decision;
};

/** The export that contains the payment's refund. */
export type Refund = {
  export: string;
  /** Unix ms. */
  at: number;
  /** The number of the chain's newest block at that time, as a decimal string. */
  block: string;
};

/** The transfer that has refunded the payment. `block` is a decimal string. */
export type RefundTransfer = { transaction: string; position: number; block: string; from: string };

/** Whether some attempt at the call may have had an effect. `none` is certain; `unknown` means that it is possible. */
export type Effect = "none" | "unknown";

/**
 * A payment, with all data that a gateway needs to finish it. `call` lacks the fields that are known only after settlement.
 * Times are unix ms by Redis' clock.
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
  /**
   * Number of a block before the claim. The payment cannot be in an earlier block, so a search begins there. 0 if the chain
   * was not read.
   */
  sinceBlock: bigint;
  /** Number of the block up to which a search found no use of the authorization. */
  searched: bigint | undefined;
  dispatches: number;
  dispatchedAt: number;
  claimedAt: number;
  /**
   * When the payment was read, by Redis' clock. Its age is the time from `claimedAt` to this time, so this process's clock
   * does not matter.
   */
  readAt: number;
  /** The time of the last change of state. */
  changedAt: number;
  settlement: Settlement | undefined;
  /** When the settlement was recorded, and the call added to its queue. */
  settledAt?: number | undefined;
  /** Whether the chain has shown the payment at the configured depth, which means that enough blocks follow it. */
  proven: boolean;
  /** Why the payment is VOID or in REVIEW, or which evidence contradicts it. */
  reason: string | undefined;
  /** The operator's decision that ended the REVIEW. */
  decided?: Decision | undefined;
  /** Set if an operator has acknowledged the evidence against the payment: who it was, and why. */
  acknowledged?: Decision | undefined;
  /**
   * Set if an operator has deleted the call's body before settlement: who it was, and why. No settle request is sent after
   * that, and the call never runs.
   */
  dropped?: Decision | undefined;
  /** Identifier of the purchase: chosen by the client in version 2, a hash of the payment in version 1. */
  identifier: string | undefined;
  /** The name of the purchase, from the request's `Idempotency-Key`. */
  idempotencyKey: string | undefined;
  /**
   * Only for a payment that a contract signed: the hash of the signed digest and the signature. With it, a repeat of the
   * payment is recognized even if the contract no longer accepts the signature.
   */
  signedSha256: string | undefined;
  /** The hash of the caller's nonce that this payment used up. */
  callerNonce: string | undefined;
  bodySha256: string;
  route: string;
  /** Whether the runner's answer is kept for the client. */
  keepsResult: boolean;
  effect: Effect;
  refund: Refund | undefined;
  refunded: RefundTransfer | undefined;
  /** When the runner's 2xx was recorded, if the call's refund had been exported before. Otherwise undefined. */
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
  /** Only for a payment that a contract signed: the hash of the signed digest and the signature. */
  signedSha256: string | undefined;
  /** A caller's nonce that this payment uses up. It is remembered until `keptUntil` (unix ms by Redis' clock). */
  callerNonce: { hash: string; keptUntil: number } | undefined;
  /** An operator's quote that this payment uses up. */
  quoteUse: { digest: string; keptUntil: number } | undefined;
};

/**
 * Encodes a new payment as the fields of its hash in Redis, without its times. The list is flat: names and values alternate.
 */
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
 * Decodes a payment from three values: the fields of its record, the fields of its hash (both flat lists of names and
 * values), and the time of the read. Undefined if the record or the hash is missing. Throws `record.unreadable` if the stored
 * data is not a payment.
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

/**
 * Decodes the record's field `unsure` (shared/queue/protocol.ts). If the field is missing, it is unknown whether an attempt
 * had an effect.
 */
export function toEffect(unsure: string | null | undefined): Effect {
  return unsure === "0" ? "none" : "unknown";
}

function parsed<Value>(text: string | undefined): Value | undefined {
  return text === undefined ? undefined : (JSON.parse(text) as Value);
}

/**
 * Returns the payment's authorization in the form in which it is searched for on the chain. `eventOrder` is the order in
 * which a token with EIP-3009 emits its events.
 */
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
 * Returns whether the evidence from the chain shows the settlement's transfer. A receipt may show several transfers, but not
 * which of them used the authorization. The transfer that an operator has assigned to the payment then counts, if it is among
 * them.
 */
export function showsTransfer(proof: ReceiptEvidence, { by, position }: Settlement): boolean {
  if (proof.kind === "paid") return true;
  return proof.kind === "wrapped" && by === "operator" && proof.positions.some((each) => each === position);
}

/** Builds the settlement as the client sees it. */
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
 * Returns the fields of the log event `payment.settled`, from which revenue is counted. This event is logged only once for
 * each payment, by the process whose write queues the call.
 */
export function settledFields(
  { id, terms, call }: Pick<Payment, "id" | "terms" | "call">,
  { transaction, by }: Pick<Settlement, "transaction" | "by">,
) {
  const trace = traceFields(call?.traceparent);
  const { service_id: serviceId, job_index: jobIndex, network, asset, symbol, amount } = terms;
  return { callId: id, serviceId, jobIndex, network, asset, symbol, amount, transaction, by, ...trace };
}

/**
 * Returns how a payment counts as revenue: the day (UTC) of its settlement, its row in the counts (token and job), and the
 * amount.
 */
export function revenueOf({ terms, settledAt, claimedAt }: Payment) {
  const { network, asset, amount, service_id: serviceId, job_index: jobIndex } = terms;
  const row = rowOf({ network, asset, job: jobKey({ serviceId, jobIndex }) });
  return { day: dayOf(settledAt ?? claimedAt), row, amount };
}

/**
 * Returns the call id of a payment. It is derived from the payer, the nonce that the payer chose, and the contract that
 * accepts this nonce only once. That contract is the token (EIP-3009), or Permit2 for all its tokens. So every gateway knows
 * the id before the payment settles, and it can be computed later from the chain alone. All payments of a payer are in one
 * partition, so that one script can count the payer's open payments. docs/payments.md has a test vector.
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

/** Returns an id that leads to the partition with all payments of this payer. It is not the id of a call. */
export function routeOfPayer(payer: string): string {
  return callIdFrom(payer.toLowerCase());
}

/** A payment for which money has moved, in any state. */
export type SettledPayment = Payment & { settlement: Settlement };

export function hasSettlement(payment: Payment): payment is SettledPayment {
  return payment.settlement !== undefined;
}
