import { ExactEvmScheme } from "@x402/evm/exact/client";
import { ExactEvmSchemeV1 } from "@x402/evm/exact/v1/client";
import { type PaymentRequirements, wrapFetchWithPayment, x402Client, x402HTTPClient } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";
import type { Devnet } from "../../../shared/dev/devnet.ts";
import { callIdFrom } from "../../../shared/job-call/call-id.ts";
import { httpRequest, type Reply } from "../http-request.ts";
import type { AcceptedCall } from "../tally.ts";
import { countPaid, type PaidTally } from "./paid-tally.ts";

/** What is bought: a job of the reference runner, run on this body. */
export type Order = {
  jobId: number;
  path: string;
  body: string;
  /** Beside those of the payment. */
  headers?: Record<string, string>;
};

/** A signed payment, to be sent as often as need be, and the call it buys. */
export type Payment = { headers: Record<string, string>; call: AcceptedCall };

/** A payer of the devnet's, who signs with the official libraries and counts every answer. */
export type Buyer = {
  readonly name: string;
  readonly address: `0x${string}`;
  /** Buys with the official client of version 2: a fetch that pays what it is asked for. */
  fetchPaid(order: Order): Promise<{ status: number; headers: Headers; text: string }>;
  /** Asks for the job without a payment: a 402, unless something is wrong. */
  ask(order: Order): Promise<Reply>;
  /** A payment of version 2 for what the 402 asks. */
  sign(order: Order, asked: Reply): Promise<Payment>;
  /** A payment of version 1, from nothing but the 402's body. */
  signV1(order: Order, asked: Reply): Promise<Payment>;
  /** Undefined where the connection ended without an answer. */
  send(payment: Payment): Promise<Reply | undefined>;
};

type Options = {
  name: string;
  account: Devnet["payers"][number];
  devnet: Devnet;
  /** `host:port` of the x402 gateway. */
  gateway: string;
  tally: PaidTally;
};

const CONTENT_TYPE = "text/plain";

export function createBuyer({ name, account, devnet, gateway, tally }: Options): Buyer {
  const signer = privateKeyToAccount(account.privateKey);
  const client = new x402Client().register("eip155:*", new ExactEvmScheme(signer));
  const http = new x402HTTPClient(client);
  const clientV1 = new ExactEvmSchemeV1(signer);
  const paying = { ...devnet, payer: account.address };
  const paidFetch = wrapFetchWithPayment(fetch, client);

  const post = ({ path, body, headers: own }: Order, headers: Record<string, string> = {}): Promise<Reply> =>
    httpRequest(gateway, {
      method: "POST",
      path,
      body,
      headers: { "Content-Type": CONTENT_TYPE, ...own, ...headers },
    });

  return {
    name,
    address: account.address,
    ask: (order) => post(order),
    async fetchPaid({ path, body }) {
      const headers = { "Content-Type": CONTENT_TYPE };
      const answer = await paidFetch(`http://${gateway}${path}`, { method: "POST", headers, body });
      const text = await answer.text();
      countPaid(tally, answer.status, String(JSON.parse(text)["call_id"]));
      return { status: answer.status, headers: answer.headers, text };
    },
    async sign(order, { headers }) {
      const required = http.getPaymentRequiredResponse((header) => String(headers[header.toLowerCase()]));
      const payload = await client.createPaymentPayload(required);
      return toPayment(paying, { order, payload, headers: http.encodePaymentSignatureHeader(payload) });
    },
    async signV1(order, { text }) {
      const { x402Version, accepts } = JSON.parse(text) as { x402Version: number; accepts: object[] };
      const [offer] = accepts as PaymentRequirements[];
      if (offer === undefined) throw new Error("expected: an offer in the 402's body");
      const payload = await clientV1.createPaymentPayload(x402Version, offer);
      const header = Buffer.from(JSON.stringify(payload)).toString("base64");
      return toPayment(paying, { order, payload, headers: { "X-PAYMENT": header } });
    },
    async send({ headers, call }) {
      const reply = await post(call, headers).catch(() => undefined);
      countPaid(tally, reply?.status, call.callId);
      return reply;
    },
  };
}

type Paying = Pick<Devnet, "chainId" | "token"> & { payer: string };
type Signed = { order: Order; payload: { payload: object }; headers: Payment["headers"] };

/** The call's id is known from the payment alone: the payment is the evidence that it is made of. */
function toPayment({ chainId, token, payer }: Paying, { order, payload, headers }: Signed): Payment {
  const { nonce } = (payload.payload as { authorization: { nonce: string } }).authorization;
  const evidence = [String(chainId), token, payer, nonce];
  const callId = callIdFrom(...evidence.map((part) => part.toLowerCase()));
  return { headers, call: { ...order, callId, contentType: CONTENT_TYPE } };
}
