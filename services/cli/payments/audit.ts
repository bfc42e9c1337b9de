import { type TokenMatches, TransferMatches } from "../../../shared/console/transfer-matches.ts";
import { AppError, messageOf } from "../../../shared/platform/errors/app-error.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { readText } from "../../../shared/platform/text/read-text.ts";
import { failureOf, followBulk } from "../follow-bulk.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { counted, inTokens, jsonLine } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";

export type AuditOptions = OperationTarget & {
  fromBlock: bigint;
  toBlock?: bigint;
  network?: string;
  /**
   * File with the JSON output of this command at another deployment that sells for the same recipient. The comparison
   * shows whether both count one transfer as their own payment.
   */
  other?: string;
  json?: boolean;
};

/**
 * `postern payments audit`: matches the payments and refunds of this deployment with the transfers on the chain in a
 * range of blocks. Exit code 1 if one of them has no counterpart. With `other`, also exit code 1 if both deployments
 * count one transfer as their payment, or if the comparison may have missed such a transfer.
 */
export async function auditPayments(deps: ProgramDeps, options: AuditOptions): Promise<number> {
  const { fromBlock, toBlock, network, other, json } = options;
  const order = { network, from_block: String(fromBlock), to_block: toBlock?.toString() };
  return withOperations(deps, options, async (operations) => {
    const theirs = other === undefined ? undefined : readOther(other);
    const run = await followBulk(operations, await operations.beginAudit(order));
    const failure = failureOf(run);
    if (failure !== undefined) throw failure;
    const audit = run.result ?? { tokens: [] };
    const compared = theirs && audit.tokens.map((token) => compareAudits(token, theirs));
    const twice = compared?.flatMap(({ counted_twice }) => counted_twice) ?? [];
    if (json) deps.print(jsonLine({ ...audit, ...(compared && { compared }) }));
    deps.say([...audit.tokens.map(tokenText), ...(compared ?? []).map(comparedText)].join("\n"));
    const isWhole = (compared ?? []).every(({ gaps }) => gaps.length === 0);
    return audit.tokens.every(isClean) && twice.length === 0 && isWhole ? EXIT.ok : EXIT.failed;
  });
}

function readOther(file: string): TransferMatches {
  const refuse = (cause: unknown, problem: string): never => {
    throw AppError.public("request.malformed", `--other ${file}: ${problem}`, { cause });
  };
  let text: string;
  try {
    text = readText(file);
  } catch (error) {
    return refuse(error, messageOf(error));
  }
  try {
    return TransferMatches.parse(JSON.parse(text));
  } catch (error) {
    return refuse(error, "must be the output of `postern payments audit -o json`");
  }
}

type Compared = {
  token: Pick<TokenMatches, "network" | "asset" | "symbol" | "pay_to">;
  counted_twice: TokenMatches["matches"];
  /** Reasons why the comparison may have missed some transfers. */
  gaps: string[];
};

/** Finds the transfers that both deployments count as their own payments. */
function compareAudits(ours: TokenMatches, { tokens }: TransferMatches): Compared {
  const { network, asset, symbol, pay_to } = ours;
  const nameOf = (token: TokenMatches) => `${token.network} ${token.asset} ${token.pay_to}`.toLowerCase();
  const theirs = tokens.filter((token) => nameOf(token) === nameOf(ours));
  const placeOf = ({ transaction, position }: TokenMatches["matches"][number]) =>
    `${transaction} ${position}`;
  const places = new Set(theirs.flatMap(({ matches }) => matches).map(placeOf));
  return {
    token: { network, asset, symbol, pay_to },
    counted_twice: ours.matches.filter((match) => places.has(placeOf(match))),
    gaps: gapsIn(ours, theirs),
  };
}

function gapsIn(ours: TokenMatches, theirs: readonly TokenMatches[]): string[] {
  const [theirOne] = theirs;
  if (theirOne === undefined) return ["the other audit does not have this token and pay_to"];
  const isCut = [ours, theirOne].some(({ matched, matches }) => matches.length < matched);
  const isShorter =
    BigInt(theirOne.from_block) > BigInt(ours.from_block) ||
    BigInt(theirOne.to_block) < BigInt(ours.to_block);
  return [
    ...(isCut ? ["an audit does not list all its matches: run both without --operator"] : []),
    ...(isShorter
      ? [
          `the other audit covers only blocks ${theirOne.from_block} to ${theirOne.to_block}: run both for the same blocks`,
        ]
      : []),
  ];
}

function comparedText({ token: { symbol, network, pay_to }, counted_twice: twice, gaps }: Compared): string {
  return [
    `${symbol} on ${network}, to ${pay_to}: ${counted(twice.length, "transfer")} counted at both deployments\n`,
    ...twice.map(
      ({ transaction, call_id }) => `  counted twice: transaction ${transaction}, call ${call_id}\n`,
    ),
    ...gaps.map((gap) => `  comparison incomplete: ${gap}\n`),
  ].join("");
}

function isClean({ orphans, unsettled, missing, surplus_refunds: surplus, more }: TokenMatches): boolean {
  return orphans.length + unsettled.length + missing.length + surplus.length + more === 0;
}

/** Formats the result of one token for people. */
function tokenText(audit: TokenMatches): string {
  const { symbol, asset, network, pay_to, from_block, to_block } = audit;
  const { matched, orphans, unsettled, missing, surplus_refunds: surplus, more } = audit;
  return [
    `${symbol} ${asset} on ${network}, to ${pay_to}, blocks ${from_block} to ${to_block}\n`,
    `  ${matched} matched, ${counted(orphans.length, "orphan")}, ${unsettled.length} unsettled, ${missing.length} missing, ${counted(surplus.length, "surplus refund")}\n`,
    ...orphans.map((each) => `  orphan: ${moneyOf(each, audit)}; ${whyOrphan(each.call_id)}\n`),
    ...unsettled.map(({ payment, ...transfer }) => {
      const says = `payment ${payment.call_id} is ${payment.state}`;
      return `  unsettled: ${moneyOf(transfer, audit)}; ${says}\n`;
    }),
    ...missing.map(({ payment: { call_id: id, state, settlement, terms } }) => {
      const amount = `${inTokens(BigInt(terms.amount), audit.decimals)} ${symbol}`;
      return `  missing: payment ${id} is ${state}, but the chain shows no transfer of ${amount} from ${terms.payer} in transaction ${settlement?.transaction}\n`;
    }),
    ...surplus.map(({ payment, ...transfer }) => {
      const says = `the refund of ${payment.call_id} was ${payment.state === "refunded" ? "closed by another transfer" : "withdrawn"}`;
      return `  surplus refund: ${moneyOf(transfer, audit)}; ${says}\n`;
    }),
    ...(more > 0 ? [`  ${counted(more, "more mismatch", "more mismatches")} not listed\n`] : []),
  ].join("");
}

type Transfer = Omit<TokenMatches["orphans"][number], "call_id">;

function moneyOf(transfer: Transfer, { decimals, symbol }: TokenMatches): string {
  const { amount, from, transaction, block, nonce } = transfer;
  const by = nonce === null ? "no authorization" : `nonce ${nonce}`;
  return `${inTokens(BigInt(amount), decimals)} ${symbol} from ${from} in transaction ${transaction}, block ${block}, ${by}`;
}

function whyOrphan(callId: string | null): string {
  return callId === null
    ? "it identifies no payment, so it paid for no call"
    : `payment ${callId} is unknown: there was no such payment, or its call ended more than 30 days ago`;
}
