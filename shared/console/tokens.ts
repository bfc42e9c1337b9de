import type { Chain } from "../chain/chain.ts";
import { chainOfToken } from "../chain/chain-of-token.ts";
import { loadAcceptedTokens, tokenOf } from "../config/accepted-tokens.ts";
import type { Env } from "../config/secrets.ts";
import type { AcceptedToken } from "../config/x402-toml.ts";
import { AppError } from "../platform/errors/app-error.ts";
import type { Clock } from "../platform/time/clock.ts";

/** Reads the accepted tokens from x402.toml. Their names can be read without the secrets that the file refers to. */
export type TokenSource = {
  /** Returns the accepted tokens. Returns none if x402.toml is missing or invalid. */
  names(): readonly AcceptedToken[];
  /**
   * Returns the accepted tokens with the URLs of their nodes (`rpc_url`). Throws `token.unconfigured` without x402.toml,
   * and `start.config_invalid` if x402.toml is invalid.
   */
  chains(): readonly AcceptedToken[];
  /** Returns a client of the token's chain; undefined if the token has no `rpc_url`. */
  chainOf(token: AcceptedToken): Chain | undefined;
};

/** Returns the number of decimals of a token, or undefined if it is not known. */
export type DecimalsOf = (terms: { network: string; asset: string }) => number | undefined;

type Options = { configDir: string; env: Env; clock: Clock };

/** Time for which the tokens are cached. A long-running process notices a change of the file within this time. */
const KNOWN_MS = 10_000;

export function createTokenSource({ configDir: dir, env, clock }: Options): TokenSource {
  const names = cachedFor(KNOWN_MS, clock, () => {
    try {
      return loadAcceptedTokens({ dir, env }, "names") ?? [];
    } catch {
      return [];
    }
  });
  const chains = cachedFor(KNOWN_MS, clock, () => {
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

function cachedFor<Value>(ms: number, clock: Clock, load: () => Value): () => Value {
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
