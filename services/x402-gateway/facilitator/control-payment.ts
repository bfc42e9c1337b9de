import { randomBytes } from "node:crypto";
import { chainIdOf, isEvmNetwork, toHex } from "../../../shared/ethereum/encoding.ts";
import { EXACT_PROXY, permit2Separator, permitDigest } from "../../../shared/ethereum/permit2.ts";
import type { AuthorizedTransfer } from "../../../shared/ethereum/proof.ts";
import { createSigner, type Signer } from "../../../shared/ethereum/signatures.ts";
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
  const isPermit2 = extra?.assetTransferMethod === "permit2";
  const payload = isPermit2
    ? permit2Payload(transfer, chainId, signer)
    : eip3009Payload(transfer, { name: "", version: "", ...extra, chainId }, signer);
  const envelope = x402Version === 1 ? { scheme, network } : { accepted: offer };
  return { x402Version, paymentPayload: { x402Version, ...envelope, payload }, paymentRequirements };
}

function eip3009Payload(
  { asset, value, validAfter, validBefore, ...rest }: AuthorizedTransfer,
  { name, version, chainId }: { name: string; version: string; chainId: number },
  { sign }: Signer,
) {
  const separator = domainSeparator({ name, version, chainId, verifyingContract: asset });
  const digest = authorizationDigest(separator, { ...rest, value, validAfter, validBefore });
  const numbers = { value: String(value), validAfter: String(validAfter), validBefore: String(validBefore) };
  return { signature: toHex(sign(digest)), authorization: { ...rest, ...numbers } };
}

function permit2Payload(transfer: AuthorizedTransfer, chainId: number, { sign }: Signer) {
  const { asset, from, to, value, validAfter, validBefore, nonce } = transfer;
  const permit2Authorization = {
    from,
    permitted: { token: asset, amount: String(value) },
    spender: EXACT_PROXY,
    nonce: String(BigInt(nonce)),
    deadline: String(validBefore),
    witness: { to, validAfter: String(validAfter) },
  };
  const signature = toHex(sign(permitDigest(permit2Separator(chainId), transfer)));
  return { signature, permit2Authorization };
}

/** What both versions have of an offer of ours. */
type Offer = {
  scheme: string;
  network: string;
  asset: `0x${string}`;
  payTo: `0x${string}`;
  amount?: string;
  maxAmountRequired?: string;
  extra?: { name?: string; version?: string; assetTransferMethod?: string };
};
