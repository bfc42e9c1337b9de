import type { PaymentRequirements } from "@x402/core/types";
import type { PaymentRequirementsV1 } from "@x402/core/types/v1";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { ExactEvmSchemeV1 } from "@x402/evm/exact/v1/client";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";
import type { DevAccount } from "../../../services/devnet/chain.ts";
import { JOB_PATH, type TestX402 } from "../../fixtures/x402.ts";
import { encodeHeader, type PaymentChoice, signPayment, signPaymentV1 } from "../../support/sign-payment.ts";

type Outcome = { status: number; code: unknown };

/** A client as docs/payments.md lists it, and a purchase as it makes one. */
export type Client = {
  name: string;
  version: 1 | 2;
  settings?: Record<string, number>;
  buy: (x402: TestX402, payer: DevAccount) => Promise<Outcome>;
};

const now = () => BigInt(Math.floor(Date.now() / 1000));

async function postedV2(
  x402: TestX402,
  choice: PaymentChoice,
  beside = (_: PaymentRequirements): object => ({}),
) {
  const { accepts, resource, extensions } = (await x402.ask()).v2;
  const [offer] = accepts;
  if (offer === undefined) throw new Error("nothing is offered");
  const { payload } = await signPayment(offer, choice, {
    ...(resource && { resource }),
    ...(extensions && { extensions }),
  });
  const header = encodeHeader({ ...payload, ...beside(offer) });
  return posted(x402, { "PAYMENT-SIGNATURE": header });
}

async function offerV1(x402: TestX402): Promise<PaymentRequirementsV1> {
  const [offer] = (await x402.ask()).v1;
  if (offer === undefined) throw new Error("nothing is offered in version 1");
  return offer;
}

async function posted(x402: TestX402, headers: Record<string, string>): Promise<Outcome> {
  const answer = await x402.post(headers);
  return { status: answer.status, code: answer.json()["code"] };
}

/** Each signs a real payment. Those that are no packages here write it as their sources and their recorded requests have it. */
export const CLIENTS: readonly Client[] = [
  {
    name: "`@x402/fetch` 2.27",
    version: 2,
    async buy(x402, { privateKey }) {
      const client = new x402Client().register(
        "eip155:*",
        new ExactEvmScheme(privateKeyToAccount(privateKey)),
      );
      client.setSpendControls({ maxAmountPerPayment: "$5" });
      const buy = wrapFetchWithPayment(fetch, client);
      const answer = await buy(`http://${x402.address}${JOB_PATH}`, { method: "POST", body: "hello" });
      return { status: answer.status, code: ((await answer.json()) as { code?: unknown }).code };
    },
  },
  {
    name: "`@x402/evm/exact/v1/client` 2.27",
    version: 1,
    async buy(x402, { privateKey }) {
      const client = new ExactEvmSchemeV1(privateKeyToAccount(privateKey));
      const payload = await client.createPaymentPayload(
        1,
        (await offerV1(x402)) as unknown as PaymentRequirements,
      );
      return posted(x402, { "X-PAYMENT": encodeHeader(payload) });
    },
  },
  {
    name: "thirdweb",
    version: 2,
    buy: (x402, payer) =>
      postedV2(
        x402,
        { payer, validAfter: now() - 600n, validBefore: now() + 120n },
        ({ scheme, network }) => ({
          ...{ scheme, network },
        }),
      ),
  },
  {
    name: "Faremeter",
    version: 1,
    async buy(x402, payer) {
      const offer = await offerV1(x402);
      const { payload } = await signPaymentV1(offer, { payer, validBefore: now() + 120n });
      return posted(x402, { "X-PAYMENT": encodeHeader({ ...payload, asset: offer.asset }) });
    },
  },
  { name: "official Go client 2.9", version: 2, buy: buyForAnHour },
  {
    name: "official Go client 2.9, with `payment_window_secs_max = 180`",
    version: 2,
    settings: { payment_window_secs_max: 180 },
    buy: buyForAnHour,
  },
];

async function buyForAnHour(x402: TestX402, payer: DevAccount): Promise<Outcome> {
  return postedV2(x402, { payer, validAfter: now() - 30n, validBefore: now() + 3600n });
}
