import { createAudit } from "../../../shared/audit/audit.ts";
import { tokenOf } from "../../../shared/config/accepted-tokens.ts";
import type { AcceptedToken } from "../../../shared/config/x402-toml.ts";
import { messageOf } from "../../../shared/errors/app-error.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import type { Logger } from "../../../shared/log/logger.ts";
import { toPaymentView } from "../../../shared/operator/payment-view.ts";
import { unknownPayment } from "../../../shared/operator/payments.ts";
import { type DecimalsOf, decimalsFrom } from "../../../shared/operator/tokens.ts";
import { chainOfToken } from "../../../shared/payments/chain-of-token.ts";
import { createPaymentJournal } from "../../../shared/payments/journal.ts";
import { createPaymentList, type PaymentSummary } from "../../../shared/payments/list.ts";
import {
  createRefunds,
  isRefundable,
  newExportId,
  type Obstacle,
  obstacleOf,
  type RefundExport,
  type RefundRow,
} from "../../../shared/payments/refunds.ts";
import type { Partition } from "../../../shared/redis/partition.ts";
import { systemClock } from "../../../shared/time/clock.ts";
import { readAcceptedTokens } from "../accepted-tokens.ts";
import { createListing } from "../listing.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { operatorName } from "../terminal.ts";
import { toIsoSeconds } from "../text.ts";
import { withRedis } from "../with-redis.ts";
import { amountOf, toneOfState } from "./list.ts";
import { toBatch, toCsv } from "./refund-formats.ts";
import { LATE } from "./show.ts";

export type RefundListOptions = {
  configDir: string;
  csv?: boolean;
  calldata?: boolean;
  /** The id of an export that is printed again. */
  export?: string;
  effectUnknown?: boolean;
  network?: string;
  limit: number;
  reason?: string;
  json?: boolean;
};

type Case = { payment: PaymentSummary; obstacle: Obstacle | undefined };

/** `postern payments refund-list`: lists what was paid and failed for good; with a format it is exported, and the export printed. */
export function listRefunds(
  deps: ProgramDeps,
  ids: readonly string[],
  options: RefundListOptions,
): Promise<number> {
  return withRedis(deps, options, async ({ partition, log, tokens }) => {
    if (options.export !== undefined) return printAgain(deps, partition, options, options.export);
    const chosen = await readCases(partition, ids, options);
    if (options.csv || options.calldata) return exportCases(deps, { partition, log }, chosen, options);
    return show(deps, chosen, { ...options, decimalsOf: decimalsFrom(tokens) });
  });
}

type Chosen = {
  /** What an export would have, the oldest payment first. */
  cases: PaymentSummary[];
  /** How many are left out, by the reason. */
  leftOut: Map<string, number>;
  /** One sentence for each named call that is not among the cases. */
  refused: string[];
};

async function readCases(
  partition: Partition,
  ids: readonly string[],
  { effectUnknown = false, network }: RefundListOptions,
): Promise<Chosen> {
  const chosen: Chosen = { cases: [], leftOut: new Map(), refused: [] };
  const named = new Set(ids);
  const isChosen = ({ id, terms }: PaymentSummary): boolean => {
    if (ids.length > 0 && !named.delete(id)) return false;
    const isThere = network === undefined || terms.network === network;
    if (!isThere && ids.length > 0) chosen.refused.push(`${id} is on ${terms.network}`);
    return isThere;
  };
  const leaveOut = ({ id }: PaymentSummary, obstacle: Obstacle): void => {
    chosen.leftOut.set(obstacle, (chosen.leftOut.get(obstacle) ?? 0) + 1);
    if (ids.length > 0) chosen.refused.push(`${id} is no case: ${obstacle}`);
  };
  for await (const { payment, obstacle } of allCases(partition)) {
    if (!isChosen(payment)) continue;
    if (obstacle === undefined || (effectUnknown && obstacle === "effect unknown"))
      chosen.cases.push(payment);
    else leaveOut(payment, obstacle);
  }
  chosen.cases.reverse();
  chosen.refused.push(...(await whyNone(partition, [...named])));
  return chosen;
}

/** Why the calls of these ids, which neither failed nor were discarded, are no cases. */
async function whyNone(partition: Partition, ids: readonly string[]): Promise<string[]> {
  const found = await createPaymentList(partition).read(ids);
  return ids.map((id, i) => {
    const state = found[i]?.state.toLowerCase();
    return state === undefined ? unknownPayment(id).message : `${id} is no case: it is ${state}`;
  });
}

/** Payments whose calls failed or were discarded, the newest first. */
async function* allCases(partition: Partition): AsyncGenerator<Case> {
  for await (const payment of createPaymentList(partition).matching({})) {
    if (isRefundable(payment)) yield { payment, obstacle: obstacleOf(payment) };
  }
}

function show(
  deps: ProgramDeps,
  { cases, leftOut, refused }: Chosen,
  { json, decimalsOf }: RefundListOptions & { decimalsOf: DecimalsOf },
): number {
  const listing = createListing<PaymentSummary>(deps, json, {
    columns: [
      { heading: "CALL", width: 34 },
      { heading: "ENDED", width: 20 },
      { heading: "STATE", width: 9, tone: toneOfState },
      { heading: "PAYER", width: 42 },
      { heading: "AMOUNT", width: 24 },
      { heading: "NETWORK", width: 14 },
      { heading: "EFFECT", tone: (effect) => (effect === "unknown" ? "attention" : undefined) },
    ],
    toCells: (payment) => [
      ...[payment.id, toIsoSeconds(payment.changedAt), payment.state.toLowerCase(), payment.terms.payer],
      ...[amountOf(payment.terms, decimalsOf(payment.terms)), payment.terms.network, payment.effect],
    ],
    toJson: (payment) => toPaymentView(payment, decimalsOf),
  });
  for (const payment of cases) listing.add(payment);
  listing.end(countText(cases.length, leftOut));
  for (const line of refused) deps.printError(`${line}\n`);
  return refused.length > 0 ? EXIT.failed : EXIT.ok;
}

function countText(count: number, leftOut: Chosen["leftOut"]): string {
  const others = [...leftOut].map(([obstacle, times]) => {
    const advice = obstacle === "effect unknown" ? " (--effect-unknown lists them too)" : "";
    return `, ${times} left out: ${obstacle}${advice}`;
  });
  return `${count} to be paid back${others.join("")}`;
}

/** Exports the cases that were listed, as far as they are still cases. */
async function exportCases(
  deps: ProgramDeps,
  session: { partition: Partition; log: Logger },
  chosen: Chosen,
  options: RefundListOptions,
): Promise<number> {
  const { printError } = deps;
  const { partition } = session;
  if (chosen.refused.length > 0) {
    printError(`${chosen.refused.join("\n")}\nnothing was exported\n`);
    return EXIT.failed;
  }
  const plan = planOf(deps, chosen.cases, options);
  if (typeof plan === "number") return plan;
  const { network, tokens } = plan;
  const cases = await withPayments(partition, plan.cases, tokens);
  const id = newExportId();
  const block = await headOf(tokens);
  const [at, by, effectUnknown] = [systemClock(), operatorName(), options.effectUnknown ?? false];
  const made = await createRefunds(partition)
    .export({ id, at, by, network, block, cases, effectUnknown })
    .catch((cause: unknown) => {
      const why = `whether export ${id} was made is unknown: ${messageOf(cause)}`;
      throw new Error(`${why}; print it with --export ${id}, and make no other before`, { cause });
    });
  if (made === undefined) {
    deps.note("nothing is to be exported: others were quicker\n");
    return EXIT.ok;
  }
  deps.print(inFormat(made, options));
  printError(`export ${id}: ${made.rows.length} on ${network}\n`);
  const rest = chosen.cases.length - made.rows.length;
  if (rest > 0) deps.note(`${rest} more are to be paid back: run this again\n`);
  await auditExport(session, made, options);
  return EXIT.ok;
}

type Plan = { network: string; tokens: readonly AcceptedToken[]; cases: readonly PaymentSummary[] };

/** What goes into one export, or the exit code of the command. */
function planOf(
  deps: ProgramDeps,
  cases: readonly PaymentSummary[],
  { configDir, limit }: RefundListOptions,
) {
  const { printError } = deps;
  const [network, ...others] = [...new Set(cases.map(({ terms }) => terms.network))];
  if (network === undefined) {
    deps.note("nothing is to be exported\n");
    return EXIT.ok;
  }
  if (others.length > 0) {
    printError(
      `error: an export is of one network: choose with --network: ${[network, ...others].join(", ")}\n`,
    );
    return EXIT.usage;
  }
  const accepted = readAcceptedTokens(deps, configDir);
  if (accepted === undefined) return EXIT.config;
  const exported = cases.slice(0, limit);
  const problems = new Set(exported.map((payment) => problemOf(payment, tokenOf(accepted, payment.terms))));
  problems.delete(undefined);
  for (const problem of problems) printError(`x402.toml: ${problem}; nothing was exported\n`);
  if (problems.size > 0) return EXIT.config;
  const tokens = accepted.filter((token) => exported.some((payment) => tokenOf([token], payment.terms)));
  return { network, tokens, cases: exported } satisfies Plan;
}

/** Why the case could never be closed. */
function problemOf({ terms }: PaymentSummary, token: AcceptedToken | undefined): string | undefined {
  const name = `token ${terms.asset} on ${terms.network}`;
  if (token === undefined) return `${name} is not among the accepted_tokens`;
  if (token.rpc_url === undefined) return `${name} has no rpc_url, so nobody could see that it was paid back`;
  if (token.refund_from.length > 0) return undefined;
  return `${name} has no refund_from: list there the addresses that pay back, as your multisig's`;
}

async function withPayments(
  partition: Partition,
  cases: readonly PaymentSummary[],
  tokens: readonly AcceptedToken[],
) {
  const journal = createPaymentJournal(partition);
  const found = await Promise.all(cases.map(({ id }) => journal.look(id)));
  return found.flatMap((payment) => {
    const token = payment && tokenOf(tokens, payment.terms);
    if (payment === undefined || token === undefined) return [];
    const { asset, symbol, payer, amount } = payment.terms;
    const row: RefundRow = { call: payment.id, asset, symbol, decimals: token.decimals, payer, amount };
    return [{ payment, row }];
  });
}

/** The furthest head of the nodes: what is in an earlier block was sent before. */
async function headOf(tokens: readonly AcceptedToken[]): Promise<bigint> {
  const chains = tokens.flatMap((token) => chainOfToken(token) ?? []);
  const heads = await Promise.all(chains.map((chain) => chain.freshHead()));
  return heads.reduce((most, { number }) => (number > most ? number : most), 0n);
}

async function auditExport(
  { partition, log }: { partition: Partition; log: Logger },
  { at, by, id, rows }: RefundExport,
  { reason }: RefundListOptions,
): Promise<void> {
  const audit = createAudit(partition, log);
  const selection = `export ${id}`;
  for (const { call } of rows) await audit({ at, action: "refund", callId: call, by, selection, reason });
}

async function printAgain(
  deps: ProgramDeps,
  partition: Partition,
  options: RefundListOptions,
  id: string,
): Promise<number> {
  const made = await createRefunds(partition).find(id);
  if (made === undefined)
    throw new Error(`there is no export ${id}, or all of it was paid back so long ago that it is forgotten`);
  deps.print(inFormat(made, options));
  const payments = await createPaymentList(partition).read(made.rows.map(({ call }) => call));
  for (const payment of payments) {
    if (payment?.state === "REFUNDED") deps.printError(`${payment.id} is paid back already\n`);
    if (payment?.lateAt !== undefined) deps.printError(`ATTENTION: ${payment.id}: ${LATE}\n`);
  }
  return EXIT.ok;
}

function inFormat(made: RefundExport, { csv }: RefundListOptions): string {
  return csv ? toCsv(made) : toBatch(made);
}
