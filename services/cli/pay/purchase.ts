import type { PaymentRequirements } from "@x402/fetch";
import { toIso } from "../moment.ts";
import type { Receipt } from "./receipt.ts";

/** What is known of a purchase, as far as it came. */
export type Purchase = {
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
  receipt?: Receipt;
  statusUrl?: string | undefined;
  followedUrl?: string;
  state?: string | undefined;
  /** The signed payment, where it has to be sent again. */
  paymentHeaders?: Record<string, string>;
};

export function toJson(purchase: Purchase) {
  const { offer, validBefore } = purchase;
  return {
    outcome: purchase.outcome,
    error: purchase.error,
    url: purchase.url,
    price: purchase.price,
    amount: offer?.amount,
    asset: offer?.asset,
    network: offer?.network,
    pay_to: offer?.payTo,
    payer: purchase.payer,
    nonce: purchase.nonce,
    valid_before: validBefore === undefined ? undefined : toIso(validBefore * 1000),
    status: purchase.status,
    call_id: purchase.callId,
    transaction: purchase.transaction,
    receipt: purchase.receipt,
    state: purchase.state,
    status_url: purchase.statusUrl,
    followed_url: purchase.followedUrl,
    payment_headers: purchase.paymentHeaders,
  };
}
