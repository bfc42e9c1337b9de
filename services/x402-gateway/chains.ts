import { type Chain, createChain } from "../../shared/chain/chain.ts";
import type { X402Toml } from "../../shared/config/x402-toml.ts";
import { AppError } from "../../shared/errors/app-error.ts";
import type { Logger } from "../../shared/log/logger.ts";
import type { Clock } from "../../shared/time/clock.ts";

const RPC_TIMEOUT_MS = 5000;

type TokenName = { network: string; asset: string };

export type Chains = {
  /** Where the token's chain can be asked; undefined where it has no `rpc_url`, which wants trusted facilitators. */
  of(token: TokenName): Chain | undefined;
  /**
   * The last known head, less the configured depth: no payment that is claimed later can be in an earlier block, even after
   * a reorganisation of that depth. Throws `payment.unavailable`.
   */
  headOf(token: TokenName): bigint;
  /** Each chain, and whether its node has answered. */
  available(): { network: string; ok: boolean }[];
  start(): void;
  close(): Promise<void>;
};

type Options = { clock: Clock; log: Logger };

/** The chains of the accepted tokens; tokens with the same node and depth share one. */
export function createChains({ accepted_tokens }: X402Toml, { clock, log }: Options): Chains {
  const shared = new Map<string, Chain>();
  const byToken = new Map<string, Chain>();
  const networks = new Map<Chain, string>();
  const depths = new Map<Chain, number>();
  for (const { network, asset, rpc_url, confirmations } of accepted_tokens) {
    if (rpc_url === undefined) continue;
    const key = `${network} ${confirmations} ${rpc_url.reveal()}`;
    const chainId = Number(network.slice("eip155:".length));
    const chain =
      shared.get(key) ??
      createChain({ rpcUrl: rpc_url, chainId, confirmations, timeoutMs: RPC_TIMEOUT_MS, clock, log });
    shared.set(key, chain);
    networks.set(chain, network);
    depths.set(chain, confirmations);
    byToken.set(nameOf({ network, asset }), chain);
  }
  const of = (token: TokenName): Chain | undefined => byToken.get(nameOf(token));
  return {
    of,
    headOf: (token) => {
      const chain = of(token);
      return chain === undefined ? 0n : headBefore(chain, depths.get(chain) ?? 0);
    },
    available: () => [...networks].map(([chain, network]) => ({ network, ok: chain.head() !== undefined })),
    start: () => {
      for (const chain of networks.keys()) chain.start();
    },
    close: async () => {
      await Promise.all([...networks.keys()].map((chain) => chain.close()));
    },
  };
}

function nameOf({ network, asset }: TokenName): string {
  return `${network}/${asset.toLowerCase()}`;
}

function headBefore(chain: Chain, depth: number): bigint {
  const head = chain.head();
  if (head === undefined) {
    throw new AppError("payment.unavailable", {
      reason: "the chain's node has not answered yet",
      retryAfterMs: 5000,
    });
  }
  return head.number > BigInt(depth) ? head.number - BigInt(depth) : 0n;
}
