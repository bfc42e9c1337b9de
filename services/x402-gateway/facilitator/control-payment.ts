import { randomBytes } from "node:crypto";
import { chainIdOf, isEvmNetwork, toHex } from "../../../shared/ethereum/encoding.ts";
import { createSigner } from "../../../shared/ethereum/signatures.ts";
import { authorizationDigest, domainSeparator } from "../../../shared/ethereum/typed-data.ts";
import type { FacilitatorRequest } from "../../../shared/payments/payment.ts";
import { chainIdOfV1 } from "../catalog.ts";

const VALID_SECS = 60;

/**
 * The same question about a payment of nobody's: well signed, by a key that is made here and forgotten, and has no money. A
 * facilitator that works refuses it, after it has asked the chain, whatever the payers of that moment send. `now` is in unix
 * milliseconds.
 */
export function toControl(
  { x402Version, paymentRequirements }: FacilitatorRequest,
  now: number,
): FacilitatorRequest {
  const offer = paymentRequirements as Offer;
  const { scheme, network, asset, payTo, extra } = offer;
  const { address, sign } = createSigner(toHex(randomBytes(32)));
  const authorization = {
    from: address,
    to: payTo,
    value: BigInt(offer.amount ?? offer.maxAmountRequired ?? 1),
    validAfter: 0n,
    validBefore: BigInt(Math.floor(now / 1000) + VALID_SECS),
    nonce: toHex(randomBytes(32)),
  };
  const chainId = (isEvmNetwork(network) ? chainIdOf(network) : chainIdOfV1(network)) ?? 0;
  const { name = "", version = "" } = extra ?? {};
  const separator = domainSeparator({ name, version, chainId, verifyingContract: asset });
  const signature = toHex(sign(authorizationDigest(separator, authorization)));
  const { value, validAfter, validBefore, ...rest } = authorization;
  const numbers = { value: String(value), validAfter: String(validAfter), validBefore: String(validBefore) };
  const payload = { signature, authorization: { ...rest, ...numbers } };
  const envelope = x402Version === 1 ? { scheme, network } : { accepted: offer };
  return { x402Version, paymentPayload: { x402Version, ...envelope, payload }, paymentRequirements };
}

/** What both versions have of an offer of ours. */
type Offer = {
  scheme: string;
  network: string;
  asset: string;
  payTo: `0x${string}`;
  amount?: string;
  maxAmountRequired?: string;
  extra?: { name: string; version: string };
};
