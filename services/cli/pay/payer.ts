import { ExactEvmScheme } from "@x402/evm/exact/client";
import { appendPaymentIdentifierToExtensions } from "@x402/extensions/payment-identifier";
import { type PaymentRequired, x402Client, x402HTTPClient } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";
import type { Secret } from "../../../shared/crypto/secret.ts";
import { chooseOffer, type Limits, type Price } from "./choose-offer.ts";
import { PayFailure } from "./pay-failure.ts";

export type SignedPayment = {
  /** Goes with every attempt: it is one payment however often it is sent. */
  headers: Record<string, string>;
  nonce: string;
  /** Unix seconds. */
  validBefore: number;
};

export type Payer = ReturnType<typeof createPayer>;

/** Pays with the official client of x402, version 2, by EIP-3009. */
export function createPayer(key: Secret) {
  const account = privateKeyToAccount(key.reveal() as `0x${string}`);
  const scheme = new ExactEvmScheme(account);
  const client = new x402Client().register("eip155:*", scheme);
  const http = new x402HTTPClient(client);

  return {
    address: account.address,

    /** What a 402 asks for. */
    readRequired(headers: Headers): PaymentRequired {
      try {
        return http.getPaymentRequiredResponse((name) => headers.get(name));
      } catch (cause) {
        const message = "the 402 has no PAYMENT-REQUIRED of x402 version 2";
        throw new PayFailure(message, { outcome: "failed", cause });
      }
    },

    /** What an answer's header says of the settlement, if it has one. */
    readResponse(headers: Headers): object | undefined {
      try {
        return http.getPaymentSettleResponse((name) => headers.get(name));
      } catch {
        return undefined;
      }
    },

    choose: (required: PaymentRequired, limits: Limits): Price =>
      chooseOffer(required, limits, ({ asset, network }) => scheme.findDefaultAsset?.(asset, network)),

    /** Signs a payment of exactly this offer. */
    async sign(required: PaymentRequired, { offer, cap }: Price): Promise<SignedPayment> {
      const { asset, network } = offer;
      // The client checks the cap itself once more.
      const allowedAssets = [{ asset, network, maxAmountPerPayment: String(cap) }];
      client.setSpendControls({ maxAmountPerPayment: false, allowedAssets });
      const extensions = appendPaymentIdentifierToExtensions(structuredClone(required.extensions ?? {}));
      const payload = await client.createPaymentPayload({ ...required, accepts: [offer], extensions });
      const { authorization } = payload.payload as { authorization: { nonce: string; validBefore: string } };
      return {
        headers: http.encodePaymentSignatureHeader(payload),
        nonce: authorization.nonce,
        validBefore: Number(authorization.validBefore),
      };
    },
  };
}
