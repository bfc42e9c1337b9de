import { AppError } from "../../../shared/errors/app-error.ts";
import { chainIdOf } from "../../../shared/ethereum/encoding.ts";
import { recoverAddress } from "../../../shared/ethereum/signatures.ts";
import { authorizationDigest, domainSeparator } from "../../../shared/ethereum/typed-data.ts";
import { paymentCallId } from "../../../shared/payments/payment-call-id.ts";
import type { Token } from "../catalog.ts";
import type { DecodedPayment } from "./header.ts";

/** A payment that its payer signed; nothing is said yet of what it is for. */
export type SignedPayment = {
  callId: string;
  /** Lower case. */
  payer: `0x${string}`;
  decoded: DecodedPayment;
  /** What it pays with, or why that is not taken. */
  token: Token | AppError;
};

/** A payment in a token that is taken. */
export type TakenPayment = SignedPayment & { token: Token };

/**
 * Recovers who signed the payment, and so which call it is: the same payment is the same call on every replica, for ever,
 * also when its token has been taken from the configuration or changed there since. Throws `payment.not_offered` and
 * `payment.signature_invalid` where nobody can be told to have signed it.
 */
export function identifyPayment(decoded: DecodedPayment, tokens: readonly Token[]): SignedPayment {
  const payer = decoded.authorization.from.toLowerCase() as `0x${string}`;
  const candidates = tokens.filter((token) => names(decoded, token));
  const token = candidates.find(({ separator }) => signerOf(decoded, separator) === payer);
  if (token !== undefined) return { callId: callIdOf(decoded, token), payer, decoded, token };
  const refusal = candidates.length === 0 ? notTaken() : notSigned();
  const named = namedIn(decoded);
  if (named === undefined || signerOf(decoded, named.separator) !== payer) throw refusal;
  return { callId: callIdOf(decoded, named), payer, decoded, token: refusal };
}

/** The payment, if its token is taken. Throws what `identifyPayment` found. */
export function inTakenToken({ token, ...payment }: SignedPayment): TakenPayment {
  if (token instanceof AppError) throw token;
  return { ...payment, token };
}

function callIdOf(
  { authorization: { from, nonce } }: DecodedPayment,
  { chainId, asset }: { chainId: number; asset: string },
): string {
  return paymentCallId({ chainId, asset, payer: from.toLowerCase(), nonce });
}

/** Version 1 names no asset: of the tokens on its network it means the one whose domain the payer signed. */
function names(decoded: DecodedPayment, token: Token): boolean {
  if (decoded.version === 1) return token.v1Network === decoded.network;
  const { network, asset } = decoded.accepted;
  return token.network === network && token.asset.toLowerCase() === asset.toLowerCase();
}

/** The token as a payment of version 2 itself describes it: enough to find the payment again, and for nothing else. */
function namedIn(decoded: DecodedPayment) {
  if (decoded.version === 1) return undefined;
  const { network, asset, extra } = decoded.accepted;
  const { name, version } = extra;
  const isNamed = /^eip155:[1-9]\d{0,15}$/.test(network) && /^0x[0-9a-fA-F]{40}$/.test(asset);
  if (!isNamed || typeof name !== "string" || typeof version !== "string") return undefined;
  const chainId = chainIdOf(network as `eip155:${number}`);
  return { chainId, asset, separator: domainSeparator({ name, version, chainId, verifyingContract: asset }) };
}

function signerOf({ authorization, signature }: DecodedPayment, separator: string): string | undefined {
  return recoverAddress(authorizationDigest(separator, authorization), signature);
}

function notTaken(): AppError {
  const detail = "this token is not taken on this network";
  return AppError.public("payment.not_offered", detail);
}

function notSigned(): AppError {
  const detail = "the signature is not the payer's, for the token's name, version, chain and address";
  return AppError.public("payment.signature_invalid", detail);
}
