import { type Eip3009Token, eip3009 } from "./eip3009.ts";
import type { Hex } from "./encoding.ts";
import { type Permit2Token, permit2 } from "./permit2.ts";
import type { AuthorizedTransfer, EventOrder, MethodOnChain, StateCall, TransferRule } from "./proof.ts";
import type { Reads } from "./rpc.ts";

/**
 * Ways in which the owner's signature moves a token. Methods of the scheme `exact` have the names of x402
 * (`assetTransferMethod`). The payment journal in Redis stores only the method's name, and from this name the gateway derives how
 * to find the payment on the chain. So a method of a further scheme needs a new name, unless its payments look the same on the
 * chain as those of a method in this list.
 */
export const TRANSFER_METHODS = ["eip3009", "permit2"] as const;
export type TransferMethod = (typeof TRANSFER_METHODS)[number];

/** The scheme of x402 that each method belongs to. */
const SCHEME_OF = { eip3009: "exact", permit2: "exact" } as const satisfies Record<TransferMethod, string>;
export type SchemeName = (typeof SCHEME_OF)[TransferMethod];

type TokenBy = { eip3009: Eip3009Token; permit2: Permit2Token };
type TokenOf<Method extends TransferMethod> = TokenBy[Method] & { transfer_method: Method };

/** The part of a token in x402.toml that depends on its transfer method. */
export type MethodToken = { [Method in TransferMethod]: TokenOf<Method> }[TransferMethod];

/** How each transfer method appears on the chain. */
const METHODS: { readonly [Method in TransferMethod]: MethodOnChain<TokenBy[Method]> } = { eip3009, permit2 };

/**
 * A transfer that its sender has authorized by one of the methods. Only EIP-3009 uses `eventOrder`, the order of the events in
 * the token's contract.
 */
export type TokenAuthorization = AuthorizedTransfer & {
  method: TransferMethod;
  eventOrder?: EventOrder | undefined;
};

/** The fields that identify an authorization: at most one authorization with these values is ever used. */
export type AuthorizationName = Pick<TokenAuthorization, "method" | "asset" | "from" | "nonce">;

/** The scheme of an offer, and the part of its `extra` that a client needs to sign. */
export function signingTerms<Method extends TransferMethod>(token: TokenOf<Method>) {
  const method: Method = token.transfer_method;
  return { scheme: SCHEME_OF[method], extra: METHODS[method].signingExtra(token) };
}

export function methodOnChain(method: TransferMethod): Omit<MethodOnChain<never>, "tokenProblems"> {
  return METHODS[method];
}

export function ruleOf(authorization: TokenAuthorization): TransferRule {
  return METHODS[authorization.method].ruleOf(authorization);
}

export function stateCallOf(name: AuthorizationName): StateCall {
  return METHODS[name.method].stateCallOf(name);
}

/** Reasons why a token cannot be accepted with its transfer method. Undefined entries mean no problem. */
export function methodProblems<Method extends TransferMethod>(
  reads: Reads,
  token: TokenOf<Method> & { asset: Hex },
  chainId: number,
): Promise<(string | undefined)[]> {
  const method: Method = token.transfer_method;
  return METHODS[method].tokenProblems(reads, token, chainId);
}
