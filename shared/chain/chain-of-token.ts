import type { Secret } from "../platform/crypto/secret.ts";
import { silentLogger } from "../platform/log/logger.ts";
import { systemClock } from "../platform/time/clock.ts";
import { type Chain, createChain } from "./chain.ts";
import { chainIdOf } from "./encoding.ts";

const RPC_TIMEOUT_MS = 60_000;
/**
 * Limit on the bytes of a node's answer. It exceeds the gateways' limit: operators must see even transactions that are too long
 * for a gateway.
 */
const ANSWER_BYTES_MAX = 256 * 1024 * 1024;

/** The members of an accepted token that are needed to read its chain. */
type Token = { network: string; rpc_url?: Secret | undefined; confirmations: number; void_depth: number };

/** Creates a reader of the token's chain. Undefined if the token has no `rpc_url`. */
export function chainOfToken({ network, rpc_url: rpcUrl, ...token }: Token): Chain | undefined {
  if (rpcUrl === undefined) return undefined;
  const { confirmations, void_depth: voidDepth } = token;
  return createChain({
    rpcUrl,
    chainId: chainIdOf(network),
    confirmations,
    voidDepth,
    timeoutMs: RPC_TIMEOUT_MS,
    answerBytesMax: ANSWER_BYTES_MAX,
    clock: systemClock,
    log: silentLogger,
  });
}
