import { z } from "zod";
import { isContradicted, isDisputed, type PaymentSummary } from "../payments/list.ts";
import { type Payment, PaymentTerms } from "../payments/payment.ts";
import { toIso } from "../platform/time/iso.ts";
import { actionsFor, PAYMENT_ACTIONS } from "./payment-actions.ts";
import { evidenceOf, meaningOf } from "./payment-evidence.ts";
import { PAYMENT_STATE_VIEWS } from "./payment-states.ts";
import type { DecimalsOf } from "./tokens.ts";
import { count, isoOrNull, isoTime, signedTime } from "./view.ts";

const Decided = z.object({ by: z.string(), reason: z.string() }).meta({ id: "OperatorDecision" });

/** The terms of a payment. */
const { service_id, job_index: job_id, ...signed } = PaymentTerms.shape;
export const TermsView = z
  .object({
    service_id,
    job_id,
    ...signed,
    valid_after: isoTime.nullable(),
    valid_before: isoTime.nullable(),
  })
  .meta({ id: "PaymentTerms" });

/** A payment. Amounts are decimal strings, in the token's smallest unit. */
export const PaymentView = z
  .object({
    call_id: z.string(),
    state: z.enum(PAYMENT_STATE_VIEWS),
    claimed_at: isoTime,
    changed_at: isoTime,
    terms: TermsView,
    /** Decimals of the token; null if the token is not configured here. */
    decimals: z.int().nullable(),
    settlement: z
      .object({
        transaction: z.string(),
        network: z.string(),
        payer: z.string(),
        by: z.enum(["facilitator", "chain", "operator"]),
        position: z.int().optional(),
        decided: Decided.optional(),
      })
      .meta({ id: "Settlement" })
      .nullable(),
    /**
     * Whether the chain has shown the payment with the configured number of blocks on top of it (`confirmations`).
     */
    proven: z.boolean(),
    /** Whether the payment counts as paid but evidence contradicts it. */
    contradicted: z.boolean(),
    /** Whether the payment is contradicted and no operator has acknowledged that. */
    disputed: z.boolean(),
    /** Number of settle requests for the payment. */
    dispatches: count,
    since_block: z.string(),
    /** The reason why the payment is void or in review, or the contradicting evidence. */
    reason: z.string().nullable(),
    /** `none` if no attempt had an effect; `unknown` if one may have done the job. */
    effect: z.enum(["none", "unknown"]),
    refund: z
      .object({ export: z.string(), at: isoTime, block: z.string() })
      .meta({ id: "ExportedRefund" })
      .nullable(),
    refunded: z
      .object({ transaction: z.string(), position: z.int(), block: z.string(), from: z.string() })
      .meta({ id: "RefundTransfer" })
      .nullable(),
    /** Time at which the runner accepted the call although its refund was exported. */
    late_at: isoTime.nullable(),
    /** Actions that an operator can take. */
    actions: z.array(z.enum(PAYMENT_ACTIONS)),
  })
  .meta({ id: "Payment" });
export type PaymentView = z.infer<typeof PaymentView>;

/** All data of a payment except its body. */
export const PaymentDetail = PaymentView.extend({
  decided: Decided.nullable(),
  acknowledged: Decided.nullable(),
  /** The operator who gave the payment up and deleted its body before it was settled, with the reason. */
  dropped: Decided.nullable(),
  facilitator: z.string(),
  dispatched_at: isoTime,
  payment_identifier: z.string().nullable(),
  route: z.string(),
  body_sha256: z.string(),
  body_kept: z.boolean(),
  content_type: z.string().nullable(),
  /** Says what the payment's state means for the money and the job, or that the chain contradicts the payment. */
  meaning: z.string(),
  /** Evidence for whether the payment was made and whether its job had an effect, one sentence each. */
  evidence: z.array(z.string()),
}).meta({ id: "PaymentDetail" });
export type PaymentDetail = z.infer<typeof PaymentDetail>;

type Signed = Pick<PaymentTerms, "service_id" | "job_index" | "valid_after" | "valid_before">;

/**
 * Converts the terms of a payment to the form that operators see: with ids of the job, and with times in ISO
 * format.
 */
export function toTermsView<Terms extends Signed>({ service_id, job_index: job_id, ...rest }: Terms) {
  const { valid_after, valid_before } = rest;
  const times = { valid_after: signedTime(valid_after), valid_before: signedTime(valid_before) };
  return { service_id, job_id, ...rest, ...times };
}

export function toPaymentView(payment: PaymentSummary, decimalsOf: DecimalsOf): PaymentView {
  const { id, state, claimedAt, changedAt, terms, settlement, proven, dispatches, reason, sinceBlock } =
    payment;
  const { refund } = payment;
  return {
    call_id: id,
    state: state.toLowerCase() as Lowercase<typeof state>,
    claimed_at: toIso(claimedAt),
    changed_at: toIso(changedAt),
    terms: toTermsView(terms),
    decimals: decimalsOf(terms) ?? null,
    settlement: settlement ?? null,
    proven,
    contradicted: isContradicted(payment),
    disputed: isDisputed(payment),
    dispatches,
    since_block: String(sinceBlock),
    reason: reason ?? null,
    effect: payment.effect,
    refund: refund === undefined ? null : { ...refund, at: toIso(refund.at) },
    refunded: payment.refunded ?? null,
    late_at: isoOrNull(payment.lateAt),
    actions: actionsFor(payment),
  };
}

export function toPaymentDetail(
  payment: Payment,
  contentType: string | undefined,
  decimalsOf: DecimalsOf,
): PaymentDetail {
  const { decided, facilitator, dispatchedAt, identifier, bodySha256, route, callBytes } = payment;
  return {
    ...toPaymentView(payment, decimalsOf),
    decided: decided ?? null,
    acknowledged: payment.acknowledged ?? null,
    dropped: payment.dropped ?? null,
    facilitator,
    dispatched_at: toIso(dispatchedAt),
    payment_identifier: identifier ?? null,
    route,
    body_sha256: bodySha256,
    body_kept: callBytes > 0,
    content_type: contentType ?? null,
    meaning: meaningOf(payment),
    evidence: evidenceOf(payment),
  };
}
