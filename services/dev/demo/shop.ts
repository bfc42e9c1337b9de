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

/** The demo with its payment gateway and its devnet, and functions with which a chapter buys a job. */
export type Shop = Demo & {
  readonly devnet: Devnet;
  readonly gateway: Part;
  /** Returns the URL at which this job is sold. */
  job(jobId: number): string;
  /** Returns a payer that no other chapter uses, so that all of this payer's charges belong to one chapter. */
  nextPayer(): Payer;
  /** Returns the transfers of tokens to the seller on the chain, from one payer or from all. */
  charges(payer?: Payer): Promise<Charge[]>;
};

/** A chapter in which a job is bought. It is left out if the demo sells no jobs, because there is no chain. */
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

/** Reads the transfers to the seller from the chain. It uses no code of Postern, so that the demo's check is independent. */
async function readCharges({ rpcUrl, token, seller }: Devnet, payer: Payer | undefined): Promise<Charge[]> {
  const chain = createPublicClient({ transport: http(rpcUrl) });
  const args = { from: payer?.address ?? null, to: seller };
  const logs = await chain.getLogs({ address: token, event: TRANSFER, args, fromBlock: 0n, strict: true });
  return logs.map(({ args: { value }, transactionHash }) => ({ units: value, transaction: transactionHash }));
}

/** A signed payment, which can be sent several times, and the call that it pays for. */
export type Payment = Call & { payer: Payer; url: string; headers: Record<string, string> };

type Order = { job: number; body: string; version?: 1 | 2 };

/** Requests the job without a payment, which gives a 402 with its price. The official x402 client signs a payment for it. */
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

/**
 * Sends a payment, and sends it again while the answer is 503 or the connection breaks. An x402 client must do the same,
 * because its payment may have been made.
 */
export function pay(payment: Payment): Promise<Reply> {
  return eventually("an answer other than 503", async () => {
    const reply = await payOnce(payment);
    return reply.status === 503 ? undefined : reply;
  });
}

/** Converts an amount in the token's smallest units to text such as "0.032000 USDC". */
export function usdc(units: bigint): string {
  return `${(Number(units) / 1e6).toFixed(6)} USDC`;
}
