import type { PaymentRequirements } from "@x402/fetch";
import { toIso } from "../moment.ts";

/** What is known of a purchase, as far as it came. */
export type Receipt = {
  url: string;
  outcome?: string;
  error?: string;
  payer?: string;
  price?: string;
  offer?: PaymentRequirements;
  nonce?: string;
  /** Unix seconds. */
  validBefore?: number;
  status?: number;
  callId?: string | undefined;
  transaction?: string | undefined;
  statusUrl?: string | undefined;
  followedUrl?: string;
  state?: string | undefined;
  /** The signed payment, where it has to be sent again. */
  paymentHeaders?: Record<string, string>;
};

export function toJson(receipt: Receipt) {
  const { offer, validBefore } = receipt;
  return {
    outcome: receipt.outcome,
    error: receipt.error,
    url: receipt.url,
    price: receipt.price,
    amount: offer?.amount,
    asset: offer?.asset,
    network: offer?.network,
    pay_to: offer?.payTo,
    payer: receipt.payer,
    nonce: receipt.nonce,
    valid_before: validBefore === undefined ? undefined : toIso(validBefore * 1000),
    status: receipt.status,
    call_id: receipt.callId,
    transaction: receipt.transaction,
    state: receipt.state,
    status_url: receipt.statusUrl,
    followed_url: receipt.followedUrl,
    payment_headers: receipt.paymentHeaders,
  };
}
