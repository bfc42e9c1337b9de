import type { AcceptedToken } from "../../../shared/config/x402-toml.ts";
import { toAppError } from "../../../shared/errors/app-error.ts";
import { type Chain, createChain } from "../../../shared/ethereum/chain.ts";
import { chainIdOf } from "../../../shared/ethereum/encoding.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { silentLogger } from "../../../shared/log/logger.ts";
import { createMatchTransfers } from "../../../shared/payments/audit.ts";
import { createPaymentList } from "../../../shared/payments/list.ts";
import { loadX402Config } from "../../../shared/pricing/load-x402-config.ts";
import type { Redis } from "../../../shared/redis/connect.ts";
import { systemClock } from "../../../shared/time/clock.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { withRedis } from "../with-redis.ts";
import { auditJson, auditText, type TokenAudit } from "./audit-report.ts";

export type AuditOptions = {
  configDir: string;
  fromBlock: bigint;
  toBlock?: bigint;
  network?: string;
  json?: boolean;
};

const RPC_TIMEOUT_MS = 15_000;

/** `postern payments audit`: 0 when all money in the range has its payment, and all payments have their money. */
export async function auditPayments(deps: ProgramDeps, options: AuditOptions): Promise<number> {
  const tokens = chooseTokens(deps, options);
  if (typeof tokens === "number") return tokens;
  return withRedis(deps, options, async ({ redis }) => {
    const toBlock = options.toBlock ?? (await latestOf(tokens));
    if (toBlock < options.fromBlock) {
      deps.printError(`--from-block ${options.fromBlock} is after block ${toBlock}\n`);
      return EXIT.failed;
    }
    const audits: TokenAudit[] = [];
    for (const token of tokens) {
      audits.push(await auditToken(redis, token, { fromBlock: options.fromBlock, toBlock }));
    }
    deps.print(options.json ? `${JSON.stringify(auditJson(audits))}\n` : auditText(audits));
    const isClean = audits.every(({ mismatches }) => mismatches.length === 0);
    return isClean ? EXIT.ok : EXIT.failed;
  });
}

/** The configured tokens of one network, or with what the command ends. */
function chooseTokens(
  { env, printError }: ProgramDeps,
  { configDir, network }: AuditOptions,
): readonly AcceptedToken[] | number {
  const refuse = (message: string, code: number): number => {
    printError(`${message}\n`);
    return code;
  };
  try {
    const { x402 } = loadX402Config({ dir: configDir, env });
    if (x402 === undefined) return refuse(`${configDir}/x402.toml: there is no such file`, EXIT.config);
    const networks = [...new Set(x402.accepted_tokens.map((token) => token.network))];
    const chosen = network ?? (networks.length === 1 ? networks[0] : undefined);
    const tokens = x402.accepted_tokens.filter((token) => token.network === chosen);
    if (tokens.length > 0) return tokens.some(isBlind) ? refuse(BLIND, EXIT.config) : tokens;
    return refuse(`error: choose a network with --network: ${networks.join(", ")}`, EXIT.usage);
  } catch (thrown) {
    return refuse(toAppError(thrown).message, EXIT.config);
  }
}

const BLIND = "x402.toml: a token of this network has no rpc_url, so its chain cannot be asked";

function isBlind({ rpc_url }: AcceptedToken): boolean {
  return rpc_url === undefined;
}

function chainOf({ network, rpc_url, confirmations }: AcceptedToken): Chain {
  if (rpc_url === undefined) throw new Error(BLIND);
  return createChain({
    rpcUrl: rpc_url,
    chainId: chainIdOf(network),
    confirmations,
    timeoutMs: RPC_TIMEOUT_MS,
    clock: systemClock,
    log: silentLogger,
  });
}

/** Nodes differ by some blocks: the range ends where all have been. */
async function latestOf(tokens: readonly AcceptedToken[]): Promise<bigint> {
  const heads = await Promise.all(tokens.map((token) => chainOf(token).freshHead()));
  return heads.reduce((least, { number }) => (number < least ? number : least), heads[0]?.number ?? 0n);
}

async function auditToken(
  redis: Redis,
  token: AcceptedToken,
  blocks: { fromBlock: bigint; toBlock: bigint },
): Promise<TokenAudit> {
  const matchTransfers = createMatchTransfers({ chain: chainOf(token), payments: createPaymentList(redis) });
  const audit: TokenAudit = { token, ...blocks, matched: 0, mismatches: [] };
  const { network, asset, pay_to: payTo } = token;
  for await (const found of matchTransfers({ network, asset, payTo, ...blocks })) {
    if (found.kind === "matched") audit.matched += 1;
    else audit.mismatches.push(found);
  }
  return audit;
}
