import { ExactEvmScheme } from "@x402/evm/exact/client";
import { ExactEvmSchemeV1 } from "@x402/evm/exact/v1/client";
import { type PaymentRequirements, wrapFetchWithPayment, x402Client, x402HTTPClient } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";
import type { Devnet } from "../../shared/dev/devnet.ts";
import { callIdFrom } from "../../shared/job-call/call-id.ts";
import { type AcceptedCall, httpRequest, type Reply } from "./sender.ts";

/** An order of a job of the reference runner. */
export type Order = {
  jobId: number;
  path: string;
  body: string;
  /** Beside those of the payment. */
  headers?: Record<string, string>;
};

/** A signed payment, which can be sent several times, and the call that it buys. */
type Payment = { headers: Record<string, string>; call: AcceptedCall };

type Bought = { callId: string; status: number; headers: Headers; text: string };

/** How the demo's paid requests were answered. */
export type PaymentLedger = {
  sent: number;
  /** Payments that were answered with 202 or with the result, by the id of their call. */
  accepted: Set<string>;
  /** 202 for a payment that had got one already. */
  repeats: number;
  /** 503: to be sent again. */
  open: number;
  refused: number;
  /** The gateway was killed before it answered. */
  unanswered: number;
};

export function createPaymentLedger(): PaymentLedger {
  return { sent: 0, accepted: new Set(), repeats: 0, open: 0, refused: 0, unanswered: 0 };
}

/** A payer of the devnet, which signs with the official libraries and counts every answer. */
export type Buyer = {
  readonly name: string;
  readonly address: `0x${string}`;
  /** Buys with the official client of version 2, a fetch that pays what it is asked for, and waits so long for the result. */
  fetchResult(order: Order, waitSecs: number): Promise<Bought>;
  /** Asks for the job without a payment, which is answered with a 402. */
  ask(order: Order): Promise<Reply>;
  /** A payment of version 2 for what the 402 asks. */
  sign(order: Order, asked: Reply): Promise<Payment>;
  /** A payment of version 1, made from the body of the 402 alone. */
  signV1(order: Order, asked: Reply): Promise<Payment>;
  /** Undefined if the connection ended without an answer. */
  send(payment: Payment): Promise<Reply | undefined>;
};

type Options = {
  name: string;
  account: Devnet["payers"][number];
  devnet: Devnet;
  /** `host:port` of the x402 gateway. */
  gateway: string;
  ledger: PaymentLedger;
};

const CONTENT_TYPE = "text/plain";

export function createBuyer({ name, account, devnet, gateway, ledger }: Options): Buyer {
  const signer = privateKeyToAccount(account.privateKey);
  const client = new x402Client().register("eip155:*", new ExactEvmScheme(signer));
  const http = new x402HTTPClient(client);
  const clientV1 = new ExactEvmSchemeV1(signer);
  const paidFetch = wrapFetchWithPayment(fetch, client);

  const post = ({ path, body, headers: own }: Order, headers: Record<string, string> = {}): Promise<Reply> =>
    httpRequest(gateway, {
      method: "POST",
      path,
      body,
      headers: { "Content-Type": CONTENT_TYPE, ...own, ...headers },
    });

  /** The call's id is known from the payment alone, because it is made of the payment's evidence. */
  function toPayment(order: Order, payload: { payload: object }, headers: Payment["headers"]): Payment {
    const { nonce } = (payload.payload as { authorization: { nonce: string } }).authorization;
    const evidence = [String(devnet.chainId), devnet.token, account.address, nonce];
    const callId = callIdFrom(...evidence.map((part) => part.toLowerCase()));
    return { headers, call: { ...order, callId, contentType: CONTENT_TYPE } };
  }

  return {
    name,
    address: account.address,
    ask: (order) => post(order),
    async fetchResult({ path, body }, waitSecs) {
      const headers = { "Content-Type": CONTENT_TYPE, Prefer: `wait=${waitSecs}` };
      const answer = await paidFetch(`http://${gateway}${path}`, { method: "POST", headers, body });
      const callId = /c_[0-9a-f]{32}/.exec(answer.headers.get("content-location") ?? "")?.[0] ?? "";
      countAnswer(ledger, answer.status, callId);
      return { callId, status: answer.status, headers: answer.headers, text: await answer.text() };
    },
    async sign(order, { headers }) {
      const required = http.getPaymentRequiredResponse((header) => String(headers[header.toLowerCase()]));
      const payload = await client.createPaymentPayload(required);
      return toPayment(order, payload, http.encodePaymentSignatureHeader(payload));
    },
    async signV1(order, { text }) {
      const { x402Version, accepts } = JSON.parse(text) as { x402Version: number; accepts: object[] };
      const [offer] = accepts as PaymentRequirements[];
      if (offer === undefined) throw new Error("expected: an offer in the 402's body");
      const payload = await clientV1.createPaymentPayload(x402Version, offer);
      const header = Buffer.from(JSON.stringify(payload)).toString("base64");
      return toPayment(order, payload, { "X-PAYMENT": header });
    },
    async send({ headers, call }) {
      const reply = await post(call, headers).catch(() => undefined);
      countAnswer(ledger, reply?.status, call.callId);
      return reply;
    },
  };
}

function countAnswer(ledger: PaymentLedger, status: number | undefined, callId: string): void {
  ledger.sent += 1;
  if (status === undefined) ledger.unanswered += 1;
  else if (status === 503) ledger.open += 1;
  else if (status !== 202 && status !== 200) ledger.refused += 1;
  else if (ledger.accepted.has(callId)) ledger.repeats += 1;
  else ledger.accepted.add(callId);
}
