import type { IncomingMessage } from "node:http";
import { platformKeys, storedBytes, toJobCall, X402_PAYER } from "../../../shared/call/job-call.ts";
import { traceparentOf } from "../../../shared/http/headers.ts";
import type { ResultAccess } from "../../../shared/ingress/ask-result.ts";
import type { NewPayment, Payment, PaymentTerms } from "../../../shared/payments/payment.ts";
import { sha256Hex } from "../../../shared/platform/crypto/compare.ts";
import { jobPath } from "../offer/catalog.ts";
import { toQuoteUse } from "../offer/operator-quote.ts";
import type { Admitted } from "./check.ts";

type Circumstances = {
  metadataPrefix: string;
  /** Returns the URL and the token by which the receiver of a callback gets the call's result. */
  accessOf: (callId: string) => ResultAccess;
  now: number;
};

/** Makes the record of a payment, which the claim writes to Redis before money moves. */
export function toNewPayment(
  req: IncomingMessage,
  { signed, job, offer, body, caller, callback, facilitator, chainCheck }: Admitted,
  { metadataPrefix, accessOf, now }: Circumstances,
): NewPayment {
  const { token, decoded, payer, callId } = signed;
  const { authorization, version, identifier, idempotencyKey } = decoded;
  const terms = {
    service_id: job.serviceId,
    job_index: job.jobIndex,
    network: token.network,
    asset: token.asset,
    symbol: token.symbol,
    pay_to: token.payTo,
    payer,
    nonce: authorization.nonce.toLowerCase(),
    amount: offer.amount,
    valid_after: String(authorization.validAfter),
    valid_before: String(authorization.validBefore),
    quote_digest: offer.digest,
    x402_version: version,
    transfer_method: token.method.name,
    body_bytes: body.length,
  };
  const keepsResult = job.keepsResult !== false;
  const call = toJobCall({
    id: callId,
    origin: "x402",
    service_id: terms.service_id,
    job_id: terms.job_index,
    metadata: toMetadata(callId, terms, caller?.address, metadataPrefix),
    content_type: req.headers["content-type"],
    body,
    bodySha256: sha256Hex(body),
    accepted_at: now,
    traceparent: traceparentOf(req),
    keep_result: keepsResult || undefined,
    callback: callback && { ...callback.target, ...(keepsResult && accessOf(callId)) },
  });
  return {
    call,
    terms,
    request: offer.request,
    facilitator,
    sinceBlock: chainCheck.block,
    route: jobPath(job),
    identifier,
    idempotencyKey,
    signedSha256: signed.signedSha256,
    callerNonce: caller?.nonce,
    quoteUse: job.operatorQuote && toQuoteUse(job.operatorQuote),
  };
}

/**
 * Makes the call's metadata before money moves. Only the payment's transaction is missing, because it is not known yet. The
 * script that queues the call adds it.
 */
function toMetadata(callId: string, terms: PaymentTerms, caller: string | undefined, prefix: string) {
  const keys = platformKeys(prefix);
  return {
    [keys.serviceId]: String(terms.service_id),
    [keys.callId]: callId,
    "X-X402-ORIGIN": "x402",
    "X-X402-QUOTE-DIGEST": terms.quote_digest,
    "X-X402-PAYMENT-NETWORK": terms.network,
    "X-X402-PAYMENT-TOKEN": terms.symbol,
    [X402_PAYER]: terms.payer,
    "X-X402-AMOUNT": terms.amount,
    ...(caller !== undefined && { [keys.caller]: caller }),
  };
}

/** Returns the payment in the form in which it would be read after its claim, which was `ageMs` ago. */
export function toSettling(payment: NewPayment, ageMs: number): Payment {
  const { call, terms, request, facilitator, sinceBlock, route, callerNonce } = payment;
  const { identifier, idempotencyKey, signedSha256 } = payment;
  return {
    id: call.id,
    state: "SETTLING",
    terms,
    call,
    callBytes: storedBytes(call),
    request,
    facilitator,
    sinceBlock,
    searched: undefined,
    dispatches: 1,
    dispatchedAt: call.accepted_at,
    claimedAt: call.accepted_at,
    readAt: call.accepted_at + ageMs,
    changedAt: call.accepted_at,
    settlement: undefined,
    proven: false,
    reason: undefined,
    identifier,
    idempotencyKey,
    signedSha256,
    callerNonce: callerNonce?.hash,
    bodySha256: call.sha256,
    route,
    keepsResult: call.keep_result === true,
    effect: "none",
    refund: undefined,
    refunded: undefined,
    lateAt: undefined,
  };
}
