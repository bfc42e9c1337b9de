import type { Authorization } from "../chain/token-events.ts";
import type { Payment, PaymentTerms } from "./payment.ts";

/** What the payer signed, as the chain is asked about it. */
export function toAuthorization(terms: PaymentTerms): Authorization {
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

/** The network as the client knows it: in version 1 by a name of its own. */
export function networkSaid({ terms, request }: Pick<Payment, "terms" | "request">): string {
  const asked = request?.paymentRequirements as { network?: unknown } | undefined;
  return typeof asked?.network === "string" ? asked.network : terms.network;
}
