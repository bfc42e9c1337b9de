import { setTimeout as pause } from "node:timers/promises";
import type { FaultOrder } from "../../../services/dev/chain/faults.ts";
import type { Part } from "../../../shared/dev/process.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import type { UsedDevnet } from "../../fixtures/devnet.ts";
import { requiredIn, signOffer, signOfferV1 } from "../../fixtures/x402.ts";
import { codeOf, type PaymentName, paymentIn, type Told } from "../../support/books.ts";
import { type Answer, send } from "../../support/http.ts";
import type { Payer } from "../../support/sign-payment.ts";

const RETRY_PAUSE_MS = 100;

/** One payment, and all that its client was told of it. */
export type Purchase = {
  payment: PaymentName;
  header: Record<string, string>;
  body: string;
  told: Told[];
  /** Of every 202. */
  callIds: string[];
  /** Requests that were never answered. */
  unanswered: number;
};

export type Plan = {
  payer: Payer;
  version: 1 | 2;
  body: string;
  /** Of the token to pay with, in lower case; without it, the first that is offered. */
  asset?: string;
};

/** The clients of several gateways at once. They believe nothing but the answers they get. */
export function createBuyer({ devnet, path }: { devnet: UsedDevnet; path: string }) {
  /** Signed for what this gateway asks, as soon as it asks. */
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

  /** Again and again, to one gateway after the other, until the answer is final. */
  async function insist(gateways: readonly Part[], purchase: Purchase, first: number): Promise<void> {
    for (let turn = first; ; turn++) {
      const answer = await post(gateways[turn % gateways.length] as Part, purchase);
      if (answer !== undefined && answer.status < 500) return;
      await pause(RETRY_PAUSE_MS);
    }
  }

  return {
    sign,
    post,
    /** The facilitator has been asked to settle it. */
    untilDispatched: ({ payment }: Purchase) => eventually("its settle", () => isDispatched(payment)),
    /** So many copies at once, spread over the gateways. */
    buy: (gateways: readonly Part[], purchase: Purchase, copies: number) =>
      Promise.all(Array.from({ length: copies }, (_, i) => insist(gateways, purchase, i))),
  };
}

export type Buyer = ReturnType<typeof createBuyer>;

function isOffered(challenge: Answer, asset: string): boolean {
  return requiredIn(challenge).accepts.some((offer) => offer.asset.toLowerCase() === asset);
}

/** What goes wrong with a facilitator now and then: the settle done or not, and hardly ever said. */
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
