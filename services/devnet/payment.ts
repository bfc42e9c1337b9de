import { z } from "zod";
import type { Hex } from "./accounts.ts";

const hex = z.custom<Hex>((value) => typeof value === "string" && /^0x[0-9a-fA-F]*$/.test(value));
const uint = z.string().transform((digits) => BigInt(digits));

const Request = z.object({
  paymentPayload: z.object({
    x402Version: z.number(),
    payload: z.object({
      signature: hex,
      authorization: z.object({
        from: hex,
        to: hex,
        value: uint,
        validAfter: uint,
        validBefore: uint,
        nonce: hex,
      }),
    }),
  }),
  paymentRequirements: z.object({ asset: hex }),
});

/** An EIP-3009 authorization as a facilitator is given it, with its signature and its token. */
export type Payment = {
  from: Hex;
  to: Hex;
  value: bigint;
  validAfter: bigint;
  validBefore: bigint;
  nonce: Hex;
  signature: Hex;
  asset: Hex;
};

/** Reads the authorization in a request to verify or settle, of either version. Throws when there is none. */
export function paymentOf(request: unknown): Payment {
  const { paymentPayload, paymentRequirements } = Request.parse(request);
  const { authorization, signature } = paymentPayload.payload;
  return { ...authorization, signature, asset: paymentRequirements.asset };
}

/** What a request says of itself, however little that is. */
export function describeRequest(request: unknown) {
  const read = Request.safeParse(request);
  if (!read.success) return { payer: undefined, nonce: undefined, x402Version: undefined };
  const { x402Version, payload } = read.data.paymentPayload;
  const { from, nonce } = payload.authorization;
  return { payer: from.toLowerCase(), nonce: nonce.toLowerCase(), x402Version };
}
