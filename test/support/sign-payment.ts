import type { PaymentPayload, PaymentRequirements } from "@x402/core/types";
import type { PaymentPayloadV1, PaymentRequirementsV1 } from "@x402/core/types/v1";
import type { ClientEvmSigner } from "@x402/evm";
import type { TypedDataDefinition } from "viem";
import { generatePrivateKey, privateKeyToAccount } from "viem/accounts";
import type { DevAccount, Hex } from "../../services/dev/chain/chain.ts";

/** The signer of a payment. The key of a wallet is its owner's, and `wrap` turns the key's signature into the wallet's. */
export type Payer = DevAccount & { readonly wrap?: (signature: Hex) => Promise<Hex> };

/** Signs typed data in the form in which verifiers expect the payer's signature. */
export async function signTyped(payer: Payer, typed: TypedDataDefinition): Promise<Hex> {
  const signature = await privateKeyToAccount(payer.privateKey).signTypedData(typed);
  return payer.wrap === undefined ? signature : payer.wrap(signature);
}

/** Makes a signer for the official clients, which do not know whether a key or a wallet signs. */
export function clientSigner(payer: Payer): ClientEvmSigner {
  const signTypedData: ClientEvmSigner["signTypedData"] = (typed) =>
    signTyped(payer, typed as TypedDataDefinition);
  return { address: payer.address, signTypedData };
}

/** The wire format: numbers are decimal strings. */
export type WireAuthorization = {
  from: Hex;
  to: Hex;
  value: string;
  validAfter: string;
  validBefore: string;
  nonce: Hex;
};

export type SignedAuthorization = { authorization: WireAuthorization; signature: Hex };

export type AuthorizationChoice = {
  payer: Payer;
  to: Hex;
  value: bigint;
  token: Hex;
  chainId: number;
  validAfter?: bigint;
  /** Default: ten minutes from now. */
  validBefore?: bigint;
  /** Default: a random nonce. */
  nonce?: Hex;
  /** Name in the token's EIP-712 domain, to use a wrong one. */
  name?: string;
  version?: string;
};

/** EIP-3009's typed data, in the form of EIP-712 libraries. */
export const TRANSFER_TYPES = {
  TransferWithAuthorization: [
    { name: "from", type: "address" },
    { name: "to", type: "address" },
    { name: "value", type: "uint256" },
    { name: "validAfter", type: "uint256" },
    { name: "validBefore", type: "uint256" },
    { name: "nonce", type: "bytes32" },
  ],
} as const;

export const CANCEL_TYPES = {
  CancelAuthorization: [
    { name: "authorizer", type: "address" },
    { name: "nonce", type: "bytes32" },
  ],
} as const;

/** Signs an EIP-3009 authorization with any values, valid or not. */
export async function signAuthorization(choice: AuthorizationChoice): Promise<SignedAuthorization> {
  const { payer, to, value, validAfter = 0n, validBefore = inTenMinutes(), nonce = randomNonce() } = choice;
  const message = { from: payer.address, to, value, validAfter, validBefore, nonce };
  const signature = await signTyped(payer, {
    domain: {
      ...domainOf(choice),
      ...(choice.name && { name: choice.name }),
      ...(choice.version && { version: choice.version }),
    },
    types: TRANSFER_TYPES,
    primaryType: "TransferWithAuthorization",
    message,
  });
  const texts = { value: String(value), validAfter: String(validAfter), validBefore: String(validBefore) };
  return { authorization: { from: payer.address, to, nonce, ...texts }, signature };
}

/** Signs the cancellation of an authorization. */
export function signCancellation(
  payer: Payer,
  nonce: Hex,
  its: { chainId: number; token: Hex },
): Promise<Hex> {
  return signTyped(payer, {
    domain: domainOf(its),
    types: CANCEL_TYPES,
    primaryType: "CancelAuthorization",
    message: { authorizer: payer.address, nonce },
  });
}

/** Values that a test may choose; the others come from the requirements. */
export type PaymentChoice = Partial<Omit<AuthorizationChoice, "payer" | "token" | "chainId">> & {
  payer: Payer;
};

export type SignedPayment<Payload, Signed = SignedAuthorization> = {
  payload: Payload;
  /** The value of PAYMENT-SIGNATURE (version 2) or X-PAYMENT (version 1). */
  header: string;
  signed: Signed;
};

/** Makes a version 2 payment for these requirements. `more` goes into the payload: `resource`, `extensions`. */
export async function signPayment(
  accepted: PaymentRequirements,
  choice: PaymentChoice,
  more: Partial<PaymentPayload> = {},
): Promise<SignedPayment<PaymentPayload>> {
  const signed = await signAuthorization({
    to: accepted.payTo as Hex,
    value: BigInt(accepted.amount),
    ...inDomain(accepted.asset, accepted.extra),
    chainId: Number(accepted.network.split(":")[1]),
    ...choice,
  });
  const payload: PaymentPayload = { x402Version: 2, accepted, payload: signed, ...more };
  return { payload, header: encodeHeader(payload), signed };
}

/** Makes a version 1 payment for these requirements, which name the network "base-sepolia". */
export async function signPaymentV1(
  offer: PaymentRequirementsV1,
  choice: PaymentChoice,
): Promise<SignedPayment<PaymentPayloadV1>> {
  const signed = await signAuthorization({
    to: offer.payTo as Hex,
    value: BigInt(offer.maxAmountRequired),
    ...inDomain(offer.asset, offer.extra),
    chainId: 84_532,
    ...choice,
  });
  const payload: PaymentPayloadV1 = {
    x402Version: 1,
    scheme: offer.scheme,
    network: offer.network,
    payload: signed,
  };
  return { payload, header: encodeHeader(payload), signed };
}

/** Encodes JSON as standard padded base64, as in all payment headers. */
export function encodeHeader(content: unknown): string {
  return Buffer.from(JSON.stringify(content)).toString("base64");
}

export function randomNonce(): Hex {
  return generatePrivateKey();
}

export function inTenMinutes(): bigint {
  return BigInt(Math.floor(Date.now() / 1000) + 600);
}

function inDomain(asset: string, extra: Record<string, unknown>) {
  return { token: asset as Hex, name: String(extra["name"]), version: String(extra["version"]) };
}

function domainOf({ chainId, token }: { chainId: number; token: Hex }) {
  return { name: "USDC", version: "2", chainId, verifyingContract: token };
}

/** Returns the authorization in the headers of a version 2 payment. */
export function authorizationIn(headers: Readonly<Record<string, string>>): SignedAuthorization {
  const header = headers["PAYMENT-SIGNATURE"] ?? "";
  return JSON.parse(Buffer.from(header, "base64").toString()).payload as SignedAuthorization;
}
