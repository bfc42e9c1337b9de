import { randomBytes } from "node:crypto";
import type { PaymentRequired } from "@x402/core/types";
import { toHex } from "../../../shared/chain/encoding.ts";
import { createSigner } from "../../../shared/chain/signatures.ts";
import { authorizationDigest, domainSeparator } from "../../../shared/chain/typed-data.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";

type Hex = `0x${string}`;

/** Decodes the 402 of a header. */
export function requiredIn(header: string | undefined): PaymentRequired {
  return JSON.parse(Buffer.from(header ?? "", "base64").toString()) as PaymentRequired;
}

/**
 * Returns a function that signs payments of the first offer of a 402, each with a new nonce. It is fast (0.1 to 0.2
 * ms), because a flood needs many. A payment is the value of PAYMENT-SIGNATURE.
 */
export function createPay({ accepts: [accepted], resource }: PaymentRequired) {
  if (accepted === undefined) throw new Error("nothing is offered");
  const { network, asset, amount, payTo, extra, maxTimeoutSeconds } = accepted;
  const [name, version] = [String(extra["name"]), String(extra["version"])];
  const chainId = Number(network.split(":")[1]);
  const separator = domainSeparator({ name, version, chainId, verifyingContract: asset });

  return function pay(key: Hex): string {
    const { address, sign } = createSigner(key);
    const validBefore = BigInt(Math.floor(systemClock() / 1000) + maxTimeoutSeconds - 5);
    const nonce = newKey();
    const message = {
      from: address,
      to: payTo as Hex,
      value: BigInt(amount),
      validAfter: 0n,
      validBefore,
      nonce,
    };
    const signature = toHex(sign(authorizationDigest(separator, message)));
    const authorization = { ...message, value: amount, validAfter: "0", validBefore: String(validBefore) };
    const payment = { x402Version: 2, payload: { signature, authorization }, resource, accepted };
    return Buffer.from(JSON.stringify(payment)).toString("base64");
  };
}

/** Returns a new key whose account has nothing. */
export function newKey(): Hex {
  return toHex(randomBytes(32)) as Hex;
}
