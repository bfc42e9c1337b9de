import type { AcceptedToken } from "../../../shared/config/x402-toml.ts";
import type { Chain } from "../../../shared/ethereum/chain.ts";
import type { Transfer } from "../../../shared/ethereum/transfers.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { toPaymentView } from "../../../shared/operator/payment-view.ts";
import { type DecimalsOf, decimalsFrom } from "../../../shared/operator/tokens.ts";
import { createMatchTransfers, type Mismatch } from "../../../shared/payments/audit.ts";
import { chainOfToken } from "../../../shared/payments/chain-of-token.ts";
import { createPaymentList, type PaymentSummary } from "../../../shared/payments/list.ts";
import { readAcceptedTokens } from "../accepted-tokens.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { inTokens, jsonLine } from "../text.ts";
import { withRedis } from "../with-redis.ts";

export type AuditOptions = {
  configDir: string;
  fromBlock: bigint;
  toBlock?: bigint;
  network?: string;
  json?: boolean;
};

type TokenAudit = {
  token: Pick<AcceptedToken, "network" | "asset" | "symbol" | "decimals" | "pay_to">;
  fromBlock: bigint;
  toBlock: bigint;
  matched: number;
  mismatches: Mismatch[];
};

/** `postern payments audit`: 0 if all money in the range has its payment, and all payments have their money. */
export async function auditPayments(deps: ProgramDeps, options: AuditOptions): Promise<number> {
  const { fromBlock, json } = options;
  const chosen = chooseTokens(deps, options);
  if (typeof chosen === "number") return chosen;
  return withRedis(deps, options, async ({ partition, tokens }) => {
    const payments = createPaymentList(partition);
    const toBlock = options.toBlock ?? (await latestOf(chosen.map(({ chain }) => chain)));
    if (toBlock < fromBlock) throw new Error(`--from-block ${fromBlock} is after block ${toBlock}`);
    const audits: TokenAudit[] = [];
    for (const { token, chain } of chosen) {
      const audit: TokenAudit = { token, fromBlock, toBlock, matched: 0, mismatches: [] };
      const { network, asset, transfer_method: method, event_order: eventOrder, pay_to: payTo } = token;
      const matchTransfers = createMatchTransfers({ chain, payments });
      const range = { network, asset, method, eventOrder, payTo, fromBlock, toBlock };
      for await (const found of matchTransfers(range)) {
        if (found.kind === "matched") audit.matched += 1;
        else audit.mismatches.push(found);
      }
      audits.push(audit);
    }
    if (json) deps.print(jsonLine(auditJson(audits, decimalsFrom(tokens))));
    deps.say(audits.map(tokenText).join("\n"));
    return audits.every(({ mismatches }) => mismatches.length === 0) ? EXIT.ok : EXIT.failed;
  });
}

/** The configured tokens of one network with their chains, or the exit code of the command. */
function chooseTokens(
  deps: ProgramDeps,
  { configDir, network }: AuditOptions,
): { token: AcceptedToken; chain: Chain }[] | number {
  const accepted = readAcceptedTokens(deps, configDir);
  if (accepted === undefined) return EXIT.config;
  const networks = [...new Set(accepted.map((token) => token.network))];
  const chosen = network ?? (networks.length === 1 ? networks[0] : undefined);
  const tokens = accepted.filter((token) => token.network === chosen);
  if (tokens.length === 0) {
    deps.printError(`error: choose a network with --network: ${networks.join(", ")}\n`);
    return EXIT.usage;
  }
  const audited = tokens.flatMap((token) => {
    const chain = chainOfToken(token);
    return chain === undefined ? [] : [{ token, chain }];
  });
  if (audited.length === tokens.length) return audited;
  deps.printError("x402.toml: a token of this network has no rpc_url, so its chain cannot be asked\n");
  return EXIT.config;
}

/** Nodes differ by some blocks: the range ends where all have been. */
async function latestOf(chains: readonly Chain[]): Promise<bigint> {
  const heads = await Promise.all(chains.map((chain) => chain.freshHead()));
  return heads.reduce((least, { number }) => (number < least ? number : least), heads[0]?.number ?? 0n);
}

/** For scripts. */
function auditJson(audits: readonly TokenAudit[], decimalsOf: DecimalsOf) {
  const toJson = (payment: PaymentSummary) => toPaymentView(payment, decimalsOf);
  return {
    tokens: audits.map(({ token, fromBlock, toBlock, matched, mismatches }) => ({
      network: token.network,
      asset: token.asset,
      symbol: token.symbol,
      pay_to: token.pay_to,
      from_block: String(fromBlock),
      to_block: String(toBlock),
      matched,
      orphans: mismatches.flatMap((each) =>
        each.kind === "orphan" ? [{ ...transferJson(each.transfer), call_id: each.callId ?? null }] : [],
      ),
      unsettled: mismatches.flatMap((each) =>
        each.kind === "unsettled" ? [{ ...transferJson(each.transfer), payment: toJson(each.payment) }] : [],
      ),
      missing: mismatches.flatMap((each) =>
        each.kind === "missing" ? [{ payment: toJson(each.payment) }] : [],
      ),
    })),
  };
}

function transferJson({ transaction, block, from, value, authorization }: Transfer) {
  return {
    transaction,
    block: String(block),
    from,
    amount: String(value),
    nonce: authorization?.nonce ?? null,
  };
}

/** For people. */
function tokenText(audit: TokenAudit): string {
  const { token, fromBlock, toBlock, matched, mismatches } = audit;
  const count = (kind: Mismatch["kind"]) => mismatches.filter((each) => each.kind === kind).length;
  return [
    `${token.symbol} ${token.asset} on ${token.network}, to ${token.pay_to}, blocks ${fromBlock} to ${toBlock}\n`,
    `  ${matched} matched, ${count("orphan")} orphans, ${count("unsettled")} unsettled, ${count("missing")} missing\n`,
    ...mismatches.map((mismatch) => `${lineOf(mismatch, token)}\n`),
  ].join("");
}

function lineOf(mismatch: Mismatch, token: TokenAudit["token"]): string {
  switch (mismatch.kind) {
    case "orphan":
      return `  orphan: ${moneyOf(mismatch.transfer, token)}; ${whyOrphan(mismatch.callId)}`;
    case "unsettled": {
      const { id, state } = mismatch.payment;
      return `  unsettled: ${moneyOf(mismatch.transfer, token)}; the journal says that ${id} is ${state.toLowerCase()}`;
    }
    case "missing": {
      const { id, state, settlement, terms } = mismatch.payment;
      const amount = `${inTokens(BigInt(terms.amount), token.decimals)} ${token.symbol}`;
      return `  missing: ${id} is ${state.toLowerCase()}, ${amount} from ${terms.payer} in transaction ${settlement?.transaction}, which the chain does not show`;
    }
  }
}

function moneyOf(transfer: Transfer, { decimals, symbol }: TokenAudit["token"]): string {
  const { value, from, transaction, block, authorization } = transfer;
  const nonce = authorization === undefined ? "no authorization" : `nonce ${authorization.nonce}`;
  return `${inTokens(value, decimals)} ${symbol} from ${from} in transaction ${transaction}, block ${block}, ${nonce}`;
}

function whyOrphan(callId: string | undefined): string {
  return callId === undefined
    ? "no authorization shows, so it paid for no job"
    : `unknown payment ${callId} (or is it older than the journal remembers, 30 days?)`;
}
