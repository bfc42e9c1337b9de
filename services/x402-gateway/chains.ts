import type { X402Toml } from "../../shared/config/x402-toml.ts";
import { AppError } from "../../shared/errors/app-error.ts";
import { type Chain, createChain } from "../../shared/ethereum/chain.ts";
import { chainIdOf } from "../../shared/ethereum/encoding.ts";
import type { Logger } from "../../shared/log/logger.ts";
import type { Clock } from "../../shared/time/clock.ts";

const RPC_TIMEOUT_MS = 5000;
/** A node that has not told its head for this long is away; it is asked every two seconds. */
const STALE_MS = 15_000;

/** The chain that decides what became of a payment, or why there is none to ask. */
export type PaymentChain =
  | Chain
  /** No node of the token's chain is configured: the facilitator's word is the last. */
  | "trusted"
  /** The token is not in the configuration any more: nobody can be asked. */
  | "unknown";

type TokenName = { network: string; asset: string };

export type Chains = {
  of(token: TokenName): PaymentChain;
  /**
   * The number of the last known head, less the configured depth: no payment claimed from now on can be in an earlier block,
   * even after a reorganisation of that depth. Throws `payment.unavailable` if no head is known yet.
   */
  headOf(token: TokenName): bigint;
  /** Each chain, and whether its node answers; `since` says when a node that is away now told its head last. */
  available(): { network: string; ok: boolean; since?: string }[];
  start(): void;
  close(): Promise<void>;
};

type Options = { clock: Clock; log: Logger };

/** The chains of the accepted tokens; tokens with the same node and depth share one. */
export function createChains(
  { accepted_tokens, trust_facilitator }: X402Toml,
  { clock, log }: Options,
): Chains {
  const shared = new Map<string, SharedChain>();
  const byToken = new Map<string, SharedChain>();
  for (const { network, asset, rpc_url, confirmations } of accepted_tokens) {
    if (rpc_url === undefined) continue;
    const key = `${network} ${confirmations} ${rpc_url.reveal()}`;
    const chainId = chainIdOf(network);
    const make = () =>
      createChain({ rpcUrl: rpc_url, chainId, confirmations, timeoutMs: RPC_TIMEOUT_MS, clock, log });
    const one = shared.get(key) ?? { network, confirmations, chain: make() };
    shared.set(key, one);
    byToken.set(nameOf({ network, asset }), one);
  }
  const all = [...shared.values()];
  return {
    of: (token) => byToken.get(nameOf(token))?.chain ?? (trust_facilitator ? "trusted" : "unknown"),
    headOf: (token) => headBefore(byToken.get(nameOf(token))),
    available: () => all.map(({ network, chain }) => ({ network, ...answering(chain, clock()) })),
    start: () => {
      for (const { chain } of all) chain.start();
    },
    close: async () => {
      await Promise.all(all.map(({ chain }) => chain.close()));
    },
  };
}

type SharedChain = { network: string; confirmations: number; chain: Chain };

function answering(chain: Chain, now: number): { ok: boolean; since?: string } {
  const head = chain.head();
  if (head === undefined) return { ok: false };
  if (now - head.at <= STALE_MS) return { ok: true };
  return { ok: false, since: new Date(head.at).toISOString() };
}

function nameOf({ network, asset }: TokenName): string {
  return `${network}/${asset.toLowerCase()}`;
}

function headBefore(shared: SharedChain | undefined): bigint {
  if (shared === undefined) return 0n;
  const head = shared.chain.head();
  if (head === undefined) {
    throw new AppError("payment.unavailable", {
      reason: "the chain's node has not answered yet",
      retryAfterMs: 5000,
    });
  }
  const depth = BigInt(shared.confirmations);
  return head.number > depth ? head.number - depth : 0n;
}
