import { registerExactEvmScheme } from "@x402/evm/exact/client";
import { x402Client, x402HTTPClient } from "@x402/fetch";
import { createPublicClient, http, parseAbiItem } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import type { Devnet } from "../../../shared/dev/devnet.ts";
import type { Part } from "../../../shared/dev/process.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { paymentCallId } from "../../../shared/payments/payment.ts";
import { type Call, type Chapter, type Demo, httpRequest, type Reply } from "./demo.ts";

export type Payer = Devnet["payers"][number];

type Charge = { units: bigint; transaction: string };

/** The demo with its catalog of jobs for sale, and what a chapter needs to buy one. */
export type Shop = Demo & {
  readonly devnet: Devnet;
  readonly gateway: Part;
  /** Returns the URL at which this job is sold. */
  job(jobId: number): string;
  /** Returns a new payer for each chapter, so that all of the payer's charges belong to that chapter. */
  nextPayer(): Payer;
  /** Returns the transfers of tokens to the seller on the chain, from one payer or from all. */
  charges(payer?: Payer): Promise<Charge[]>;
};

/** A chapter that is left out if no job is sold. */
export type PaidChapter = Omit<Chapter, "show"> & { buy(shop: Shop): Promise<void> };

export function createShop(demo: Demo, devnet: Devnet, gateway: Part, serviceId: string): Shop {
  const payers = [...devnet.payers];
  return {
    ...demo,
    devnet,
    gateway,
    job: (jobId) => `http://${gateway.address}/x402/jobs/${serviceId}/${jobId}`,
    nextPayer() {
      const payer = payers.shift();
      if (payer === undefined) throw new Error("the devnet has too few payers for these chapters");
      return payer;
    },
    charges: (payer) => readCharges(devnet, payer),
  };
}

const TRANSFER = parseAbiItem("event Transfer(address indexed from, address indexed to, uint256 value)");

/** Reads the transfers to the seller from the chain, without any code of Postern. */
async function readCharges({ rpcUrl, token, seller }: Devnet, payer: Payer | undefined): Promise<Charge[]> {
  const chain = createPublicClient({ transport: http(rpcUrl) });
  const args = { from: payer?.address ?? null, to: seller };
  const logs = await chain.getLogs({ address: token, event: TRANSFER, args, fromBlock: 0n, strict: true });
  return logs.map(({ args: { value }, transactionHash }) => ({ units: value, transaction: transactionHash }));
}

/** A signed payment, which can be sent several times, and the call that it pays for. */
export type Payment = Call & { payer: Payer; url: string; headers: Record<string, string> };

type Order = { job: number; body: string; version?: 1 | 2 };

/** Requests a job's price, and signs a payment of the next payer with the official x402 client. */
export async function sign(shop: Shop, { job, body, version = 2 }: Order): Promise<Payment> {
  const [payer, url] = [shop.nextPayer(), shop.job(job)];
  const asked = await eventually("a 402", async () => {
    const reply = await httpRequest(url, body);
    return reply.status === 402 ? reply : undefined;
  });
  const signer = privateKeyToAccount(payer.privateKey);
  const client = new x402HTTPClient(registerExactEvmScheme(new x402Client(), { signer }));
  // A client of version 1 reads only the body of the 402.
  const header = (name: string) => (version === 1 ? null : asked.headers.get(name));
  const payment = await client.createPaymentPayload(client.getPaymentRequiredResponse(header, asked.json));
  const { nonce } = payment.payload["authorization"] as { nonce: string };
  const { chainId, token: asset } = shop.devnet;
  const callId = paymentCallId({ chainId, method: "eip3009", asset, payer: payer.address, nonce });
  return { payer, url, body, callId, headers: client.encodePaymentSignatureHeader(payment) };
}

/** Sends a payment once. Rejects if the connection ends without an answer. */
export function payOnce({ url, headers, body }: Payment): Promise<Reply> {
  return httpRequest(url, body, { "Content-Type": "text/plain", ...headers });
}

/** Sends the same payment again until the answer is not 503, as an x402 client must. */
export function pay(payment: Payment): Promise<Reply> {
  return eventually("an answer other than 503", async () => {
    const reply = await payOnce(payment);
    return reply.status === 503 ? undefined : reply;
  });
}

/** Writes the token's smallest units as USDC, with all decimals. */
export function usdc(units: bigint): string {
  return `${(Number(units) / 1e6).toFixed(6)} USDC`;
}
