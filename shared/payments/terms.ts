import type { TokenAuthorization } from "../ethereum/logs.ts";
import type { Payment, PaymentTerms, Settlement } from "./payment.ts";

/** What the payer signed, as the chain is asked about it. */
export function toAuthorization(terms: PaymentTerms): TokenAuthorization {
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
