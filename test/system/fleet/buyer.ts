import { setTimeout as pause } from "node:timers/promises";
import type { FaultOrder } from "../../../services/dev/chain/faults.ts";
import type { Part } from "../../../shared/dev/process.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import type { UsedDevnet } from "../../fixtures/devnet.ts";
import { requiredIn, signOffer, signOfferV1 } from "../../fixtures/x402.ts";
import { type ClientAnswer, codeOf, type PaymentName, paymentIn } from "../../support/books.ts";
import { type Answer, send } from "../../support/http.ts";
import type { Payer } from "../../support/sign-payment.ts";

const RETRY_PAUSE_MS = 100;

/** One payment, and everything that its client was answered. */
export type Purchase = {
  payment: PaymentName;
  header: Record<string, string>;
  body: string;
  told: ClientAnswer[];
  /** Call ids of all 202 answers. */
  callIds: string[];
  /** Requests that were never answered. */
  unanswered: number;
};

export type Plan = {
  payer: Payer;
  version: 1 | 2;
  body: string;
  /** Token to pay with, in lower case. By default, the first one offered. */
  asset?: string;
};

/** Creates clients of several gateways. They know only the answers that they get. */
export function createBuyer({ devnet, path }: { devnet: UsedDevnet; path: string }) {
  /** Signs a payment for this gateway's price, as soon as the gateway answers. */
  async function sign(gateway: Part, { payer, version, body, asset }: Plan): Promise<Purchase> {
    const challenge = await eventually("a price is asked", async () => {
      const answer = await send(gateway.address, { path, body: "" });
      return answer.status === 402 && (asset === undefined || isOffered(answer, asset)) ? answer : undefined;
    });
    const header =
      version === 2 ? await signOffer(challenge, { payer }, asset) : await signOfferV1(challenge, { payer });
    const payment = paymentIn(header) as PaymentName;
    return { payment, header, body, told: [], callIds: [], unanswered: 0 };
  }

  async function post(gateway: Part, purchase: Purchase): Promise<Answer | undefined> {
    const { header, body } = purchase;
    const answer = await send(gateway.address, { path, headers: header, body }).catch(() => undefined);
    if (answer === undefined) purchase.unanswered++;
    else await note(purchase, answer);
    return answer;
  }

  async function note({ payment, told, callIds }: Purchase, answer: Answer): Promise<void> {
    const { status } = answer;
    const dispatched = status >= 400 && status < 500 && (await isDispatched(payment));
    told.push({ payment, status, code: codeOf(answer), dispatched });
    if (status === 202) callIds.push(String(answer.json()["call_id"]));
  }

  async function isDispatched({ payer, nonce }: PaymentName): Promise<boolean> {
    const { requests } = await devnet.control.requests();
    return requests.some((each) => each.on === "settle" && each.payer === payer && each.nonce === nonce);
  }

  /** Sends the payment again and again, to one gateway after the other, until the answer is final. */
  async function sendUntilFinal(gateways: readonly Part[], purchase: Purchase, first: number): Promise<void> {
    for (let turn = first; ; turn++) {
      const answer = await post(gateways[turn % gateways.length] as Part, purchase);
      if (answer !== undefined && answer.status < 500) return;
      await pause(RETRY_PAUSE_MS);
    }
  }

  return {
    sign,
    post,
    /** Resolves once the facilitator was asked to settle the payment. */
    untilDispatched: ({ payment }: Purchase) => eventually("its settle", () => isDispatched(payment)),
    /** Sends this many copies of a payment at once, spread over the gateways. */
    buy: (gateways: readonly Part[], purchase: Purchase, copies: number) =>
      Promise.all(Array.from({ length: copies }, (_, i) => sendUntilFinal(gateways, purchase, i))),
  };
}

export type Buyer = ReturnType<typeof createBuyer>;

function isOffered(challenge: Answer, asset: string): boolean {
  return requiredIn(challenge).accepts.some((offer) => offer.asset.toLowerCase() === asset);
}

/** Occasional faults of a facilitator: the settle happens or not, and it is rarely answered. */
export const NOW_AND_THEN: readonly FaultOrder[] = [
  { on: "settle", kind: "drop", acts: true, times: 1 },
  { on: "settle", kind: "drop", times: 1 },
  { on: "settle", kind: "status", status: 502, acts: true, times: 1 },
  { on: "settle", kind: "status", status: 500, times: 1 },
  { on: "settle", kind: "slow", delayMs: 500, times: 1 },
  { on: "settle", kind: "slow", replyDelayMs: 2500, times: 1 },
  { on: "settle", kind: "refuse", acts: true, times: 1 },
  { on: "verify", kind: "drop", times: 1 },
  { on: "verify", kind: "status", status: 503, times: 1 },
];
