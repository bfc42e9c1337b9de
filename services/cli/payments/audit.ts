import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import type { TokenAudit } from "../../../shared/operator/money-audit.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { inTokens, jsonLine } from "../text.ts";
import { type Operated, withOperations } from "../with-operations.ts";

export type AuditOptions = Operated & {
  fromBlock: bigint;
  toBlock?: bigint;
  network?: string;
  json?: boolean;
};

/** `postern payments audit`: 0 if all money in the range has its payment, and all payments have their money. */
export async function auditPayments(deps: ProgramDeps, options: AuditOptions): Promise<number> {
  const { fromBlock, toBlock, network, json } = options;
  const order = { network, from_block: String(fromBlock), to_block: toBlock?.toString() };
  return withOperations(deps, options, async ({ auditMoney }) => {
    const audit = await auditMoney(order);
    if (json) deps.print(jsonLine(audit));
    deps.say(audit.tokens.map(tokenText).join("\n"));
    return audit.tokens.every(isClean) ? EXIT.ok : EXIT.failed;
  });
}

function isClean({ orphans, unsettled, missing, surplus_refunds: surplus, more }: TokenAudit): boolean {
  return orphans.length + unsettled.length + missing.length + surplus.length + more === 0;
}

/** For people. */
function tokenText(audit: TokenAudit): string {
  const { symbol, asset, network, pay_to, from_block, to_block } = audit;
  const { matched, orphans, unsettled, missing, surplus_refunds: surplus, more } = audit;
  return [
    `${symbol} ${asset} on ${network}, to ${pay_to}, blocks ${from_block} to ${to_block}\n`,
    `  ${matched} matched, ${orphans.length} orphans, ${unsettled.length} unsettled, ${missing.length} missing, ${surplus.length} surplus refunds\n`,
    ...orphans.map((each) => `  orphan: ${moneyOf(each, audit)}; ${whyOrphan(each.call_id)}\n`),
    ...unsettled.map(({ payment, ...transfer }) => {
      const says = `the journal says that ${payment.call_id} is ${payment.state}`;
      return `  unsettled: ${moneyOf(transfer, audit)}; ${says}\n`;
    }),
    ...missing.map(({ payment: { call_id: id, state, settlement, terms } }) => {
      const amount = `${inTokens(BigInt(terms.amount), audit.decimals)} ${symbol}`;
      return `  missing: ${id} is ${state}, ${amount} from ${terms.payer} in transaction ${settlement?.transaction}, which the chain does not show\n`;
    }),
    ...surplus.map(({ payment, ...transfer }) => {
      const says = `the refund of ${payment.call_id} is ${payment.state === "refunded" ? "closed by another transfer" : "withdrawn"}`;
      return `  surplus refund: ${moneyOf(transfer, audit)}; ${says}\n`;
    }),
    ...(more > 0 ? [`  ${more} more do not match\n`] : []),
  ].join("");
}

type Transfer = Omit<TokenAudit["orphans"][number], "call_id">;

function moneyOf(transfer: Transfer, { decimals, symbol }: TokenAudit): string {
  const { amount, from, transaction, block, nonce } = transfer;
  const by = nonce === null ? "no authorization" : `nonce ${nonce}`;
  return `${inTokens(BigInt(amount), decimals)} ${symbol} from ${from} in transaction ${transaction}, block ${block}, ${by}`;
}

function whyOrphan(callId: string | null): string {
  return callId === null
    ? "no authorization shows, so it paid for no job"
    : `unknown payment ${callId} (or is it older than the journal remembers, 30 days?)`;
}
