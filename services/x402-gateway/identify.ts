import { AppError } from "../../shared/errors/app-error.ts";
import { authorizationDigest } from "../../shared/evm/authorization.ts";
import { recoverAddress } from "../../shared/evm/recover.ts";
import { paymentCallId } from "../../shared/payments/payment-call-id.ts";
import type { Token } from "./catalogue.ts";
import type { DecodedPayment } from "./payment-header.ts";

/** A payment that its payer signed, for this token; nothing is said yet of what it is for. */
export type SignedPayment = {
  callId: string;
  /** Lower case. */
  payer: `0x${string}`;
  token: Token;
  decoded: DecodedPayment;
};

/**
 * Recovers who signed the payment, and so which call it is: the same payment is the same call on every replica, for ever.
 * Throws `payment.not_offered` for a token that is not taken and `payment.signature_invalid`.
 */
export function identifyPayment(decoded: DecodedPayment, tokens: readonly Token[]): SignedPayment {
  const candidates = tokens.filter((token) => names(decoded, token));
  if (candidates.length === 0) {
    const detail = "this token is not taken on this network";
    throw new AppError("payment.not_offered", { reason: detail, publicDetail: detail });
  }
  const payer = decoded.authorization.from.toLowerCase() as `0x${string}`;
  const token = candidates.find((candidate) => signerOf(decoded, candidate) === payer);
  if (token === undefined) {
    const detail = "the signature is not the payer's, for the token's name, version, chain and address";
    throw new AppError("payment.signature_invalid", { reason: detail, publicDetail: detail });
  }
  const { chainId, asset } = token;
  const callId = paymentCallId({ chainId, asset, payer, nonce: decoded.authorization.nonce });
  return { callId, payer, token, decoded };
}

/** Version 1 names no asset: of the tokens on its network it means the one whose domain the payer signed. */
function names(decoded: DecodedPayment, token: Token): boolean {
  if (decoded.version === 1) return token.v1Network === decoded.network;
  const { network, asset } = decoded.accepted;
  return token.network === network && token.asset.toLowerCase() === asset.toLowerCase();
}

function signerOf({ authorization, signature }: DecodedPayment, { separator }: Token): string | undefined {
  return recoverAddress(authorizationDigest(separator, authorization), signature);
}
