import { authorizationState, type Eip3009Transfer, eip3009Rule } from "./eip3009.ts";
import { nonceBitmap, type Permit2Transfer, permit2Rule } from "./permit2.ts";
import type { StateCall, TransferRule } from "./proof.ts";

/** How a token moves by its owner's signature, as x402 calls it (`assetTransferMethod`). */
export const TRANSFER_METHODS = ["eip3009", "permit2"] as const;
export type TransferMethod = (typeof TRANSFER_METHODS)[number];

/** A transfer that its sender has authorized by one of the methods. */
export type TokenAuthorization = Eip3009Transfer | Permit2Transfer;

/** Names an authorization: at most one of a name is ever used. */
export type AuthorizationName = Pick<TokenAuthorization, "method" | "asset" | "from" | "nonce">;

export function ruleOf(authorization: TokenAuthorization): TransferRule {
  return authorization.method === "permit2" ? permit2Rule(authorization) : eip3009Rule(authorization);
}

export function stateCallOf(name: AuthorizationName): StateCall {
  return name.method === "permit2" ? nonceBitmap(name) : authorizationState(name);
}
