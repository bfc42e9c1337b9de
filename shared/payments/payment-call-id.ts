import { callIdFrom } from "../job-call/call-id.ts";

/** What tells one payment from all others (EIP-3009): its token, its payer and the nonce its payer chose. */
export type PaymentIdentity = { chainId: number; asset: string; payer: string; nonce: string };

/** The call id of a payment: known before it settles, on every replica, and from the chain alone once it has. */
export function paymentCallId({ chainId, asset, payer, nonce }: PaymentIdentity): string {
  return callIdFrom(String(chainId), asset.toLowerCase(), payer.toLowerCase(), nonce.toLowerCase());
}
