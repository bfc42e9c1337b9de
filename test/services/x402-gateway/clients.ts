import type { PaymentRequirements } from "@x402/core/types";
import type { PaymentRequirementsV1 } from "@x402/core/types/v1";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { ExactEvmSchemeV1 } from "@x402/evm/exact/v1/client";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { JOB_PATH, type TestX402 } from "../../fixtures/x402.ts";
import {
  clientSigner,
  encodeHeader,
  type Payer,
  type PaymentChoice,
  signPayment,
  signPaymentV1,
} from "../../support/sign-payment.ts";
import { inItsShape, RECORDED, type Recorded, targetOf } from "./recorded-payments.ts";

type Outcome = { status: number; code: unknown };

/** A client as docs/payments.md lists it, and a function that buys like this client. */
export type Client = {
  name: string;
  version: 1 | 2;
  settings?: Record<string, number>;
  /** Kind of payer, if not a key with money. With Permit2, the payment is in USDT instead of the devnet's token. */
  payer?: "wallet" | "undeployed wallet";
  permit2?: "approved" | "not approved";
  /** Whether it differs from another client only in its version, payer or settings. Such a client buys in the long run only. */
  variant?: true;
  /** Whether a runner runs the job and answers. */
  runs?: true;
  buy: (x402: TestX402, payer: Payer) => Promise<Outcome>;
};

const now = () => BigInt(Math.floor(Date.now() / 1000));

async function postedV2(
  x402: TestX402,
  choice: PaymentChoice,
  beside = (_: PaymentRequirements): object => ({}),
  headers: Record<string, string> = {},
) {
  const { accepts, resource, extensions } = (await x402.ask()).v2;
  const [offer] = accepts;
  if (offer === undefined) throw new Error("nothing is offered");
  const { payload } = await signPayment(offer, choice, {
    ...(resource && { resource }),
    ...(extensions && { extensions }),
  });
  const header = encodeHeader({ ...payload, ...beside(offer) });
  return posted(x402, { "PAYMENT-SIGNATURE": header, ...headers });
}

async function offerV1(x402: TestX402): Promise<PaymentRequirementsV1> {
  const [offer] = (await x402.ask()).v1;
  if (offer === undefined) throw new Error("nothing is offered in version 1");
  return offer;
}

async function posted(x402: TestX402, headers: Record<string, string>, path = JOB_PATH): Promise<Outcome> {
  const answer = await x402.post(headers, { path });
  const code = answer.status < 400 ? undefined : answer.json()["code"];
  return { status: answer.status, code };
}

/**
 * Clients that each sign a real payment. A client without a package here has its payment written as its source code and its recorded
 * requests show.
 */
export const CLIENTS: readonly Client[] = [
  {
    name: "`@x402/fetch` 2.27",
    version: 2,
    buy: fetchPaid,
  },
  {
    name: "`@x402/evm/exact/v1/client` 2.27",
    version: 1,
    buy: buyInVersion1,
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
    name: "thirdweb",
    version: 1,
    variant: true,
    async buy(x402, payer) {
      const window = { validAfter: now() - 86_400n, validBefore: now() + 120n };
      const { payload } = await signPaymentV1(await offerV1(x402), { payer, ...window });
      return posted(x402, { "X-PAYMENT": encodeHeader(payload) });
    },
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
  {
    name: "Faremeter",
    version: 2,
    variant: true,
    buy: (x402, payer) =>
      postedV2(x402, { payer, validAfter: now() - 60n, validBefore: now() + 120n }, () => ({
        extensions: undefined,
      })),
  },
  {
    name: "x402-signer 2.5",
    version: 2,
    async buy(x402, payer) {
      const window = { validAfter: now() - 600n, validBefore: now() + 120n };
      const { "PAYMENT-SIGNATURE": header = "" } = await x402.pay({ payer, ...window });
      return posted(x402, { "payment-signature": header });
    },
  },
  {
    name: "any client that takes only 200 for success",
    version: 2,
    runs: true,
    buy: (x402, payer) =>
      postedV2(x402, { payer, validBefore: now() + 120n }, undefined, {
        Prefer: "wait=10",
        "Idempotency-Key": "order_0123456789abcdef",
      }),
  },
  { name: "BankofAI 0.6.1", version: 2, buy: boughtLike("bankofai-x402-0.6.1-null-members") },
  {
    name: "BankofAI 0.6.1, at another name of the gateway or with a query",
    version: 2,
    variant: true,
    buy: boughtLike("bankofai-x402-0.6.1-query"),
  },
  { name: "r402 0.21", version: 2, buy: boughtLike("r402-0.21.0-v2") },
  {
    name: "Python code that sends `signature.hex()` of hexbytes 1",
    version: 2,
    buy: boughtLike("r402-0.21.0-v2", ({ payload }) => {
      payload.signature = payload.signature.replace(/^0x/, "");
    }),
  },
  { name: "official Go client 2.9", version: 2, buy: buyForAnHour },
  {
    name: "official Go client 2.9, with `payment_window_secs_max = 180`",
    version: 2,
    variant: true,
    settings: { payment_window_secs_max: 180 },
    buy: buyForAnHour,
  },
  { name: "`@x402/fetch` 2.27, for a wallet", version: 2, payer: "wallet", buy: fetchPaid },
  {
    name: "`@x402/fetch` 2.27, for a wallet that is not deployed yet",
    version: 2,
    variant: true,
    payer: "undeployed wallet",
    buy: fetchPaid,
  },
  {
    name: "`@x402/evm/exact/v1/client` 2.27, for a wallet",
    version: 1,
    variant: true,
    payer: "wallet",
    buy: buyInVersion1,
  },
  { name: "`@x402/fetch` 2.27, in a token by Permit2", version: 2, permit2: "approved", buy: fetchPaid },
  {
    name: "`@x402/fetch` 2.27, for a wallet in a token by Permit2",
    version: 2,
    variant: true,
    payer: "wallet",
    permit2: "approved",
    buy: fetchPaid,
  },
  {
    name: "`@x402/fetch` 2.27, in a token by Permit2 that its payer has not approved",
    version: 2,
    variant: true,
    permit2: "not approved",
    buy: fetchPaid,
  },
];

/** Buys with a payment in the shape of a recorded one. */
function boughtLike(client: string, change: (sent: Recorded["payment"]) => void = () => {}): Client["buy"] {
  return async (x402, payer) => {
    const recorded = RECORDED.find((each) => each.client === client);
    const [offer] = (await x402.ask()).v2.accepts;
    if (recorded === undefined || offer === undefined) throw new Error(`${client} cannot buy`);
    const sent = await inItsShape(recorded, offer, payer);
    change(sent);
    return posted(x402, { [recorded.header]: encodeHeader(sent) }, targetOf(recorded));
  };
}

async function fetchPaid(x402: TestX402, payer: Payer): Promise<Outcome> {
  const client = new x402Client().register("eip155:*", new ExactEvmScheme(clientSigner(payer)));
  client.setSpendControls(false);
  const buy = wrapFetchWithPayment(fetch, client);
  const answer = await buy(`http://${x402.address}${JOB_PATH}`, { method: "POST", body: "hello" });
  return { status: answer.status, code: ((await answer.json()) as { code?: unknown }).code };
}

async function buyInVersion1(x402: TestX402, payer: Payer): Promise<Outcome> {
  const client = new ExactEvmSchemeV1(clientSigner(payer));
  const payload = await client.createPaymentPayload(
    1,
    (await offerV1(x402)) as unknown as PaymentRequirements,
  );
  return posted(x402, { "X-PAYMENT": encodeHeader(payload) });
}

async function buyForAnHour(x402: TestX402, payer: Payer): Promise<Outcome> {
  return postedV2(x402, { payer, validAfter: now() - 30n, validBefore: now() + 3600n });
}
