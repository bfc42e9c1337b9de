import type { ResultRead } from "../../../shared/call/results/store.ts";
import type { ReceiptKeys } from "../../../shared/config/receipt-keys.ts";
import type { PaymentTerms, SettledPayment, Settlement } from "../../../shared/payments/payment.ts";
import {
  newSalt,
  type PaymentClaims,
  RECEIPT_TYPES,
  type ResultClaims,
  type SignedReceipt,
  saltedDigest,
} from "../../../shared/payments/receipt.ts";
import { sha256Hex } from "../../../shared/platform/crypto/compare.ts";
import { createSignJws, toJwk } from "../../../shared/platform/crypto/jws.ts";
import type { Clock } from "../../../shared/platform/time/clock.ts";
import type { PaidCall } from "./outcome.ts";

export type Receipts = ReturnType<typeof createReceipts>;

/**
 * End of a call that a receipt can certify. There is no receipt for a result that was too long to be kept or is no longer kept,
 * because its digest cannot be computed.
 */
type Ended = Extract<ResultRead, { kind: "answer" | "failed" | "failure" }>;

export function isEnded(read: ResultRead): read is Ended {
  return read.kind === "answer" || read.kind === "failed" || read.kind === "failure";
}

type Settled = { id: string; terms: PaymentTerms; settlement: Settlement };

/** Creates the functions that sign receipts. All signed facts are in Redis, so each replica signs the same facts, at any time. */
export function createReceipts(
  { signing, published }: ReceiptKeys,
  { issuer: iss, clock }: { issuer: string; clock: Clock },
) {
  const sign = createSignJws(signing);
  const commonOf = ({ id, terms, settlement }: Settled) => ({
    iss,
    iat: Math.floor(clock() / 1000),
    call_id: id,
    service_id: terms.service_id,
    job_index: terms.job_index,
    network: terms.network,
    payer: terms.payer,
    transaction: settlement.transaction,
  });

  return {
    /** JSON Web Key Set (RFC 7517) that verifies the receipts. */
    jwks: { keys: published.map(toJwk) },

    /**
     * Certifies that a payment was made. The receipt says nothing about the job's result, and the payment may still be refunded.
     */
    ofPayment(paid: PaidCall): SignedReceipt {
      const { terms, status, bodySha256 } = paid;
      const salt = newSalt();
      const claims: PaymentClaims = {
        ...commonOf(paid),
        asset: terms.asset,
        amount: terms.amount,
        pay_to: terms.pay_to,
        quote_digest: terms.quote_digest,
        body_digest: saltedDigest(salt, bodySha256),
        status,
      };
      return { jws: sign(RECEIPT_TYPES.payment, claims), salt };
    },

    /**
     * Certifies how a call has ended. The end of a failed call is not final: an operator may replay the call, and then it can end
     * differently.
     */
    ofResult(payment: SettledPayment, read: Ended): SignedReceipt {
      const salt = read.kind === "answer" ? newSalt() : undefined;
      const claims: ResultClaims = {
        ...commonOf(payment),
        accepted_at: payment.claimedAt,
        ended_at: read.at,
        status: read.kind === "answer" ? "completed" : "failed",
        ...(read.kind === "failed" ? { failure_code: read.code } : { result_status: read.status }),
        ...(read.kind === "answer" && { content_type: read.contentType }),
        ...(read.kind === "answer" && salt && { result_digest: saltedDigest(salt, sha256Hex(read.body)) }),
        ...(payment.refunded && { refund_transaction: payment.refunded.transaction }),
      };
      return { jws: sign(RECEIPT_TYPES.result, claims), ...(salt && { salt }) };
    },
  };
}
