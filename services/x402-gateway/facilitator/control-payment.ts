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

/** What both versions have of an offer of ours. */
type Offer = {
  scheme: SchemeName;
  network: string;
  asset: `0x${string}`;
  payTo: `0x${string}`;
  amount?: string;
  maxAmountRequired?: string;
  extra?: Extra;
};
