import type { AcceptedToken } from "../../../shared/config/x402-toml.ts";
import type { Transfer } from "../../../shared/ethereum/transfers.ts";
import type { Mismatch } from "../../../shared/payments/audit.ts";
import { inTokens } from "../in-tokens.ts";
import { toJson } from "./list.ts";

export type TokenAudit = {
  token: Pick<AcceptedToken, "network" | "asset" | "symbol" | "decimals" | "pay_to">;
  fromBlock: bigint;
  toBlock: bigint;
  matched: number;
  mismatches: Mismatch[];
};

export function auditJson(audits: readonly TokenAudit[]) {
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

export function auditText(audits: readonly TokenAudit[]): string {
  return audits.map(tokenText).join("\n");
}

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
    ? "it came by no authorization, so it paid for no job"
    : `unknown payment ${callId} (or is it older than the journal remembers, 30 days?)`;
}
