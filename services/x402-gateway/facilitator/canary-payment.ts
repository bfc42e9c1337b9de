import { randomBytes } from "node:crypto";
import { chainIdOf, isEvmNetwork, toHex } from "../../../shared/chain/encoding.ts";
import type { SchemeName } from "../../../shared/chain/payment-schemes.ts";
import { createSigner } from "../../../shared/chain/signatures.ts";
import type { FacilitatorRequest } from "../../../shared/payments/payment.ts";
import { SCHEMES } from "../schemes/registry.ts";
import type { Extra } from "../schemes/scheme.ts";
import { chainIdOfV1 } from "../schemes/v1-networks.ts";

const VALID_SECS = 60;

/**
 * Makes a canary payment: a payment that the gateway sends only to test whether a facilitator works. It is for the same offer as
 * `request`, and signed correctly, but by a new random account without money. A working facilitator reads the chain and refuses
 * it. Because no payer wrote it, no payer can make this test fail. `now` is in unix milliseconds.
 */
export function toCanaryPayment(
  { x402Version, paymentRequirements }: FacilitatorRequest,
  now: number,
): FacilitatorRequest {
  const offer = paymentRequirements as Offer;
  const { scheme, network, asset, payTo, extra } = offer;
  const chainId = (isEvmNetwork(network) ? chainIdOf(network) : chainIdOfV1(network)) ?? 0;
  const signer = createSigner(toHex(randomBytes(32)));
  const transfer = {
    asset,
    from: signer.address,
    to: payTo,
    value: BigInt(offer.amount ?? offer.maxAmountRequired ?? 1),
    validAfter: 0n,
    validBefore: BigInt(Math.floor(now / 1000) + VALID_SECS),
    nonce: toHex(randomBytes(32)),
  };
  const method = SCHEMES[scheme].methodIn(extra ?? {});
  const separator = method.separatorOf({ chainId, asset, extra: { name: "", version: "", ...extra } }) ?? "";
  const signature = toHex(signer.sign(method.digest(transfer, separator)));
  const payload = { signature, [method.member]: method.toMember(transfer) };
  const envelope = x402Version === 1 ? { scheme, network } : { accepted: offer };
  return { x402Version, paymentPayload: { x402Version, ...envelope, payload }, paymentRequirements };
}

/**
 * Those members of the gateway's offers that a canary payment needs. The price is `amount` in version 2 and `maxAmountRequired`
 * in version 1.
 */
type Offer = {
  scheme: SchemeName;
  network: string;
  asset: `0x${string}`;
  payTo: `0x${string}`;
  amount?: string;
  maxAmountRequired?: string;
  extra?: Extra;
};
