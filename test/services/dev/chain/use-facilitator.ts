import { x402Client } from "@x402/core/client";
import type { PaymentPayload, PaymentRequirements, SettleResponse, VerifyResponse } from "@x402/core/types";
import type { PaymentRequirementsV1 } from "@x402/core/types/v1";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { afterAll, afterEach, beforeAll } from "vitest";
import type { DevAccount, Hex } from "../../../../services/dev/chain/chain.ts";
import { newPayer, startTestDevnet, type TestDevnet } from "../../../support/devnet.ts";
import { clientSigner, type Payer, type SignedPayment, signPayment } from "../../../support/sign-payment.ts";

export const PRICE = 12_345n;

/** A facilitator with a short wait for blocks, on a chain that makes blocks only for transactions, and its clients. */
export function useFacilitator() {
  const devnet = {} as TestDevnet;
  beforeAll(async () => {
    Object.assign(devnet, await startTestDevnet({ blockTimeMs: 0, confirmationTimeoutMs: 1500 }));
  });
  afterAll(() => devnet.stop?.());
  afterEach(async () => {
    await devnet.control.clearFaults();
    await devnet.control.clearRequests();
  });

  function requirements(): PaymentRequirements {
    return {
      scheme: "exact",
      network: devnet.network as PaymentRequirements["network"],
      asset: devnet.token,
      amount: String(PRICE),
      payTo: devnet.seller,
      maxTimeoutSeconds: 120,
      extra: { name: "USDC", version: "2" },
    };
  }

  function permit2Requirements(symbol: keyof TestDevnet["permit2Tokens"]): PaymentRequirements {
    const extra = { assetTransferMethod: "permit2" };
    return { ...requirements(), asset: devnet.permit2Tokens[symbol], extra };
  }

  function requirementsV1(): PaymentRequirementsV1 {
    return {
      scheme: "exact",
      network: devnet.networkV1 as PaymentRequirementsV1["network"],
      maxAmountRequired: String(PRICE),
      resource: "https://seller.example/jobs",
      description: "",
      mimeType: "application/json",
      outputSchema: {},
      payTo: devnet.seller,
      maxTimeoutSeconds: 120,
      asset: devnet.token,
      extra: { name: "USDC", version: "2" },
    };
  }

  async function call<Answer>(
    path: "verify" | "settle",
    paymentPayload: object,
    terms: object = requirements(),
  ) {
    const { x402Version } = paymentPayload as { x402Version: number };
    const body = JSON.stringify({ x402Version, paymentPayload, paymentRequirements: terms });
    const answer = await fetch(`${devnet.facilitatorUrl}/${path}`, {
      method: "POST",
      body,
      redirect: "manual",
    });
    const text = await answer.text();
    return { status: answer.status, headers: answer.headers, text, json: () => JSON.parse(text) as Answer };
  }

  const verify = async (payload: object, terms?: object) =>
    (await call<VerifyResponse>("verify", payload, terms)).json();
  const settle = async (payload: object, terms?: object) =>
    (await call<SettleResponse>("settle", payload, terms)).json();

  const paid = ({ address }: DevAccount, asset?: Hex) => devnet.chain.chargesOf(address, asset);

  /** Signs a payment for these requirements with the official version 2 client. */
  function signedByClient(payer: Payer, terms = requirements()): Promise<PaymentPayload> {
    const client = new x402Client().setSpendControls({ allowedAssets: true });
    client.register("eip155:*", new ExactEvmScheme(clientSigner(payer)));
    const resource = { url: "https://seller.example/jobs" };
    return client.createPaymentPayload({ x402Version: 2, resource, accepts: [terms] });
  }

  async function payment(): Promise<SignedPayment<object> & { payer: DevAccount }> {
    const payer = await newPayer(devnet);
    return { payer, ...(await signPayment(requirements(), { payer })) };
  }

  return {
    ...{ devnet, requirements, permit2Requirements, requirementsV1 },
    ...{ call, verify, settle, paid, payment, signedByClient },
  };
}
