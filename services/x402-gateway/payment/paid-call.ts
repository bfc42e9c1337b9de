import { type JobCall, platformKeys, toJobCall } from "../../../shared/job-call/job-call.ts";
import type { PaymentTerms, Settlement } from "../../../shared/payments/payment.ts";

type Made = {
  id: string;
  terms: PaymentTerms;
  /** Of a restricted job. */
  caller: string | undefined;
  metadataPrefix: string;
  contentType: string | undefined;
  body: Buffer;
  bodySha256: string;
  acceptedAt: number;
  traceparent: string | undefined;
};

/** The call as it is written before money moves; it lacks only the transaction. */
export function toPaidCall({ id, terms, caller, metadataPrefix, acceptedAt, ...rest }: Made): JobCall {
  const keys = platformKeys(metadataPrefix);
  const metadata = {
    [keys.serviceId]: String(terms.service_id),
    [keys.callId]: id,
    "X-X402-ORIGIN": "x402",
    "X-X402-QUOTE-DIGEST": terms.quote_digest,
    "X-X402-PAYMENT-NETWORK": terms.network,
    "X-X402-PAYMENT-TOKEN": terms.symbol,
    "X-X402-PAYER": terms.payer,
    "X-X402-AMOUNT": terms.amount,
    ...(caller !== undefined && { [keys.caller]: caller }),
  };
  return toJobCall({
    id,
    origin: "x402",
    job_id: terms.job_index,
    metadata,
    accepted_at: acceptedAt,
    ...rest,
  });
}

/** The call as the runner gets it. */
export function toSettledCall(call: JobCall, { transaction }: Settlement): JobCall {
  return { ...call, metadata: { ...call.metadata, "X-X402-TRANSACTION": transaction } };
}
