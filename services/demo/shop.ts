import { ExactEvmScheme } from "@x402/evm/exact/client";
import { ExactEvmSchemeV1 } from "@x402/evm/exact/v1/client";
import { type PaymentRequirements, x402Client, x402HTTPClient } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";
import type { Devnet } from "../../shared/dev/devnet.ts";
import type { Part } from "../../shared/dev/process.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { callIdFrom } from "../../shared/job-call/call-id.ts";
import { httpRequest, jsonOf, type Reply } from "./http.ts";

export type Payer = Devnet["payers"][number];

type Charge = { units: bigint; transaction: string };

/** Where jobs are sold, and what each chapter buys with. */
export type Shop = {
  readonly devnet: Devnet;
  readonly gateway: Part;
  /** The URL at which this job is sold. */
  job(jobId: number): string;
  /** A payer of its own for each chapter, so that all its charges are that chapter's. */
  nextPayer(): Payer;
  /** Transfers of tokens to the seller that the chain has: of one payer, or of all. */
  charges(payer?: Payer): Promise<Charge[]>;
};

export function createShop(devnet: Devnet, gateway: Part, serviceId: string): Shop {
  const payers = devnet.payers[Symbol.iterator]();
  return {
    devnet,
    gateway,
    job: (jobId) => `http://${gateway.address}/x402/jobs/${serviceId}/${jobId}`,
    nextPayer() {
      const { value } = payers.next();
      if (value === undefined) throw new Error("expected: a payer for each chapter that buys a job");
      return value;
    },
    charges: (payer) => readCharges(devnet, payer),
  };
}

/** `Transfer(address indexed from, address indexed to, uint256 value)` of ERC-20. */
const TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";

/** Asks the chain itself, without any of Postern's code. */
async function readCharges({ rpcUrl, token, seller }: Devnet, payer: Payer | undefined): Promise<Charge[]> {
  const topic = (address: string) => `0x${address.slice(2).toLowerCase().padStart(64, "0")}`;
  const topics = [TRANSFER, payer === undefined ? null : topic(payer.address), topic(seller)];
  const body = JSON.stringify({
    jsonrpc: "2.0",
    id: 1,
    method: "eth_getLogs",
    params: [{ address: token, fromBlock: "0x0", topics }],
  });
  const reply = await httpRequest(rpcUrl, { headers: { "Content-Type": "application/json" }, body });
  const logs = jsonOf(reply)["result"] as { data: string; transactionHash: string }[];
  return logs.map(({ data, transactionHash }) => ({ units: BigInt(data), transaction: transactionHash }));
}

/** A signed payment, which can be sent several times, and the call that it buys. */
export type Payment = { url: string; headers: Record<string, string>; callId: string; body: string };

type Order = { url: string; body: string; version?: 1 | 2 };

/** Asks for the job's price and signs a payment of it, with the official client of this version of x402. */
export async function sign({ devnet }: Shop, payer: Payer, order: Order): Promise<Payment> {
  const { url, body, version = 2 } = order;
  const asked = await eventually("a 402", async () => {
    const reply = await httpRequest(url, { body });
    return reply.status === 402 ? reply : undefined;
  });
  const signer = privateKeyToAccount(payer.privateKey);
  const { payload, headers } = version === 1 ? await signV1(signer, asked) : await signV2(signer, asked);
  // The call's id follows from the payment alone.
  const { nonce } = (payload as { authorization: { nonce: string } }).authorization;
  const evidence = [String(devnet.chainId), devnet.token, payer.address, nonce];
  return {
    url,
    headers,
    callId: callIdFrom(...evidence.map((part) => part.toLowerCase())),
    body,
  };
}

type Signer = ReturnType<typeof privateKeyToAccount>;

async function signV2(signer: Signer, { headers }: Reply) {
  const client = new x402Client().register("eip155:*", new ExactEvmScheme(signer));
  const http = new x402HTTPClient(client);
  const required = http.getPaymentRequiredResponse((name) => headers.get(name));
  const payload = await client.createPaymentPayload(required);
  return { payload: payload.payload, headers: http.encodePaymentSignatureHeader(payload) };
}

/** A client of version 1 reads nothing but the body of the 402. */
async function signV1(signer: Signer, asked: Reply) {
  const { x402Version, accepts } = jsonOf(asked) as { x402Version: number; accepts: PaymentRequirements[] };
  const [offer] = accepts;
  if (offer === undefined) throw new Error("expected: an offer in the 402's body");
  const payload = await new ExactEvmSchemeV1(signer).createPaymentPayload(x402Version, offer);
  const header = Buffer.from(JSON.stringify(payload)).toString("base64");
  return { payload: payload.payload, headers: { "X-PAYMENT": header } };
}

/** Sends a payment once. Rejects if the connection ends without an answer. */
export function payOnce({ url, headers, body }: Payment): Promise<Reply> {
  return httpRequest(url, { headers: { "Content-Type": "text/plain", ...headers }, body });
}

/** Sends the same payment until it is answered with something else than 503, as a client of x402 must. */
export function pay(payment: Payment): Promise<Reply> {
  return eventually("an answer other than 503", async () => {
    const reply = await payOnce(payment);
    return reply.status === 503 ? undefined : reply;
  });
}

/** The token's smallest units as USDC, with all decimals. */
export function usdc(units: bigint): string {
  const digits = String(units).padStart(7, "0");
  return `${digits.slice(0, -6)}.${digits.slice(-6)} USDC`;
}
