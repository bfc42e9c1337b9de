import type { Chain } from "../chain/chain.ts";
import { chainOfToken } from "../chain/chain-of-token.ts";
import { loadAcceptedTokens, tokenOf } from "../config/accepted-tokens.ts";
import type { Env } from "../config/secrets.ts";
import type { AcceptedToken } from "../config/x402-toml.ts";
import { AppError } from "../platform/errors/app-error.ts";
import type { Clock } from "../platform/time/clock.ts";

/** The accepted tokens of x402.toml, as far as they are needed: who only names them needs no credential, and no file. */
export type TokenSource = {
  /** What they are; none if that is not known. */
  names(): readonly AcceptedToken[];
  /** With where their chains are. Throws `token.unconfigured` without x402.toml, and `start.config_invalid` if it is wrong. */
  chains(): readonly AcceptedToken[];
  /** Undefined if the token has no `rpc_url`. */
  chainOf(token: AcceptedToken): Chain | undefined;
};

/** How many decimals a token has, if it is known. */
export type DecimalsOf = (terms: { network: string; asset: string }) => number | undefined;

type Options = { configDir: string; env: Env; clock: Clock };

/** A process that runs long sees a change of the file so soon. */
const KNOWN_MS = 10_000;

export function createTokenSource({ configDir: dir, env, clock }: Options): TokenSource {
  const names = knownFor(KNOWN_MS, clock, () => {
    try {
      return loadAcceptedTokens({ dir, env }, "names") ?? [];
    } catch {
      return [];
    }
  });
  const chains = knownFor(KNOWN_MS, clock, () => {
    const tokens = loadAcceptedTokens({ dir, env }, "chains");
    if (tokens !== undefined) return tokens;
    const publicDetail = "x402.toml not found, so tokens and chains are unknown";
    throw new AppError("token.unconfigured", { reason: `${dir}: ${publicDetail}`, publicDetail });
  });
  const opened = new WeakMap<AcceptedToken, Chain | undefined>();
  return {
    names,
    chains,
    chainOf(token) {
      if (!opened.has(token)) opened.set(token, chainOfToken(token));
      return opened.get(token);
    },
  };
}

function knownFor<Value>(ms: number, clock: Clock, load: () => Value): () => Value {
  let known: { value: Value; at: number } | undefined;
  return () => {
    const now = clock();
    if (known === undefined || now - known.at >= ms) known = { value: load(), at: now };
    return known.value;
  };
}

export function decimalsFrom(tokens: Pick<TokenSource, "names">): DecimalsOf {
  return (terms) => tokenOf(tokens.names(), terms)?.decimals;
}
