import type { PaymentRequired } from "@x402/core/types";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import { systemClock } from "../../shared/platform/time/clock.ts";
import { TRANSFER_TYPES } from "../../test/support/sign-payment.ts";
import { MAX_TIMEOUT_SECS } from "./sale.ts";

/**
 * Number of payers. It is so large that no payer has as many open payments as the gateway allows for one payer. A request
 * above that limit would have to wait.
 */
const PAYERS = 64;

type Hex = `0x${string}`;
type Offer = PaymentRequired["accepts"][number];

/**
 * An authorization of a token transfer (EIP-3009) with its payer's signature, in the form that the payment header needs. It
 * pays any offer with the same token, recipient and amount, so the gateway and its baseline can both get it.
 */
export type Signed = {
  signature: string;
  authorization: Record<"from" | "to" | "value" | "validAfter" | "validBefore" | "nonce", string>;
};

/** Sends a request without a payment, and returns the offers and terms from the header of the 402 answer. */
export async function fetchOffer(address: string, path: string): Promise<PaymentRequired> {
  const answer = await fetch(`http://${address}${path}`, { method: "POST" });
  await answer.arrayBuffer();
  const header = answer.headers.get("payment-required");
  if (answer.status !== 402 || header === null)
    throw new Error(`${address} asks for no payment: ${answer.status}`);
  return JSON.parse(Buffer.from(header, "base64").toString()) as PaymentRequired;
}

/** Signs `count` payments of the first offer, each with its own nonce. Signing one takes about a millisecond. */
export async function signMany(required: PaymentRequired, count: number): Promise<Signed[]> {
  const offer = offerIn(required);
  const payers = Array.from({ length: PAYERS }, () => privateKeyToAccount(generatePrivateKey()));
  const sign = async (payer: (typeof payers)[number]): Promise<Signed> => {
    const message = toMessage(payer.address, offer);
    const primaryType = "TransferWithAuthorization";
    const signature = await payer.signTypedData({
      domain: domainOf(offer),
      types: TRANSFER_TYPES,
      primaryType,
      message,
    });
    const texts = {
      value: String(message.value),
      validAfter: String(message.validAfter),
      validBefore: String(message.validBefore),
    };
    return { signature, authorization: { ...message, ...texts } };
  };
  const signed: Signed[] = [];
  while (signed.length < count) signed.push(...(await Promise.all(payers.map(sign))));
  return signed.slice(0, count);
}

/**
 * Encodes the header with a payment, in version 2 of the protocol. It repeats the same fields of the 402 answer as the
 * official client does.
 */
export function toHeader(
  { accepts: [accepted], resource, extensions }: PaymentRequired,
  payload: Signed,
): string {
  const payment = { x402Version: 2, payload, extensions, resource, accepted };
  return Buffer.from(JSON.stringify(payment)).toString("base64");
}

/** Returns whether a payment that was signed for one of the two offers is also valid for the other. */
export function isSameSale(one: PaymentRequired, other: PaymentRequired): boolean {
  const [a, b] = [offerIn(one), offerIn(other)].map(({ network, asset, amount, payTo, extra }) =>
    [network, asset, amount, payTo, extra["name"], extra["version"]].join(" ").toLowerCase(),
  );
  return a === b;
}

function toMessage(from: Hex, { payTo, amount }: Offer) {
  const now = Math.floor(systemClock() / 1000);
  return {
    from,
    to: payTo as Hex,
    value: BigInt(amount),
    validAfter: BigInt(now - 600),
    validBefore: BigInt(now + MAX_TIMEOUT_SECS),
    nonce: generatePrivateKey(),
  };
}

function domainOf({ network, asset, extra }: Offer) {
  const chainId = Number(network.split(":")[1]);
  const [name, version] = [String(extra["name"]), String(extra["version"])];
  return { name, version, chainId, verifyingContract: asset as Hex };
}

function offerIn({ accepts: [offer] }: PaymentRequired): Offer {
  if (offer === undefined) throw new Error("nothing is offered");
  return offer;
}
