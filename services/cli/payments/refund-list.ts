import type { Operations } from "../../../shared/console/contract/contract.ts";
import type { RefundCase, RefundExportView } from "../../../shared/console/refunds.ts";
import { newExportId } from "../../../shared/payments/refund-export.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { createListing } from "../listing.ts";
import { pagesOf } from "../pages.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { counted, toSeconds } from "../text.ts";
import { type Operated, withOperations } from "../with-operations.ts";
import { amountOf, toneOfState } from "./list.ts";
import { toBatch, toCsv } from "./refund-formats.ts";
import { LATE } from "./show.ts";

export type RefundListOptions = Operated & {
  csv?: boolean;
  calldata?: boolean;
  /** All of them as a table for bookkeeping; nothing is exported. */
  report?: boolean;
  /** The id of an export that is printed again. */
  export?: string;
  effectUnknown?: boolean;
  network?: string;
  limit: number;
  reason?: string;
  json?: boolean;
};

/** `postern payments refund-list`: lists what was paid and failed for good; with a format it is exported, and the export printed. */
export function listRefunds(
  deps: ProgramDeps,
  ids: readonly string[],
  options: RefundListOptions,
): Promise<number> {
  return withOperations(deps, options, async (operations) => {
    if (options.export !== undefined)
      return printAgain(deps, await operations.getRefundExport({ export_id: options.export }), options);
    if (options.report) {
      for await (const piece of (await operations.getRefundReport()).pieces)
        deps.print(Buffer.from(piece).toString());
      return EXIT.ok;
    }
    const chosen = await readCases(operations, ids, options);
    const problem = await whyNoNetwork(operations, chosen, options);
    if (problem !== undefined) {
      deps.printError(`error: ${problem}\n`);
      return EXIT.usage;
    }
    if (options.csv || options.calldata) return exportCases(deps, operations, chosen, options);
    return show(deps, chosen, options);
  });
}

const PAGE_MAX = 500;

type Chosen = {
  /** What an export would have, the oldest payment first. */
  cases: RefundCase[];
  /** How many are left out, by the reason. */
  leftOut: Map<string, number>;
  /** The networks of the cases that --network leaves out. */
  elsewhere: Set<string>;
  /** One sentence for each named call that is not among the cases. */
  refused: string[];
};

async function readCases(
  { getPayment, listRefunds }: Operations,
  ids: readonly string[],
  { effectUnknown = false, network }: RefundListOptions,
): Promise<Chosen> {
  const chosen: Chosen = { cases: [], leftOut: new Map(), elsewhere: new Set(), refused: [] };
  const named = new Set(ids);
  const isChosen = ({ call_id: id, terms }: RefundCase): boolean => {
    if (ids.length > 0 && !named.delete(id)) return false;
    const isThere = network === undefined || terms.network === network;
    if (!isThere) chosen.elsewhere.add(terms.network);
    if (!isThere && ids.length > 0) chosen.refused.push(`${id} is on ${terms.network}, not on ${network}`);
    return isThere;
  };
  const leaveOut = ({ call_id: id }: RefundCase, obstacle: string): void => {
    chosen.leftOut.set(obstacle, (chosen.leftOut.get(obstacle) ?? 0) + 1);
    if (ids.length > 0) chosen.refused.push(`no refund is due for ${id}: ${obstacle}`);
  };
  const read = (cursor?: string) => listRefunds({ limit: PAGE_MAX, cursor });
  for await (const each of pagesOf(read, ({ payments }) => payments)) {
    if (each.state === "refund_pending" || !isChosen(each)) continue;
    const { obstacle } = each;
    if (obstacle === null || (effectUnknown && obstacle === "effect unknown")) chosen.cases.push(each);
    else leaveOut(each, obstacle);
  }
  chosen.cases.reverse();
  // The others neither failed nor were discarded.
  for (const id of named)
    chosen.refused.push(
      await getPayment({ call_id: id }).then(
        ({ state }) => `no refund is due for ${id}: it is ${state}`,
        (error: Error) => error.message,
      ),
    );
  return chosen;
}

/** Says that the chosen network has neither a case nor an accepted token; undefined if it has one, or if the tokens are not known. */
async function whyNoNetwork(
  { getConfiguredNames }: Operations,
  { cases, leftOut, refused }: Chosen,
  { network }: RefundListOptions,
): Promise<string | undefined> {
  if (network === undefined || cases.length + leftOut.size + refused.length > 0) return undefined;
  const { networks } = await getConfiguredNames();
  if (networks.length === 0 || networks.includes(network)) return undefined;
  return `no refund is due on ${network}, and no accepted token is on it; choose one of ${networks.join(", ")}`;
}

function show(deps: ProgramDeps, chosen: Chosen, { json }: RefundListOptions): number {
  const { cases, refused } = chosen;
  const listing = createListing<RefundCase>(deps, json, {
    columns: [
      { heading: "CALL", width: 34 },
      { heading: "ENDED", width: 20 },
      { heading: "STATE", width: 9, tone: toneOfState },
      { heading: "PAYER", width: 42 },
      { heading: "AMOUNT", width: 24 },
      { heading: "NETWORK", width: 14 },
      { heading: "EFFECT", tone: (effect) => (effect === "unknown" ? "attention" : undefined) },
    ],
    toCells: ({ call_id: id, changed_at: changedAt, state, terms, decimals, effect }) => [
      ...[id, toSeconds(changedAt), state, terms.payer],
      ...[amountOf(terms, decimals), terms.network, effect],
    ],
    toJson: (payment) => payment,
  });
  for (const payment of cases) listing.add(payment);
  listing.end(countText(chosen));
  for (const line of refused) deps.printError(`${line}\n`);
  return refused.length > 0 ? EXIT.failed : EXIT.ok;
}

function countText({ cases, leftOut, elsewhere }: Chosen): string {
  const others = elsewhere.size === 0 ? [] : [`more on ${[...elsewhere].join(", ")}`];
  return [`${counted(cases.length, "refund")} due`, ...leftOutText(leftOut), ...others].join(", ");
}

/** What an operator may do about an obstacle. */
const ADVICE: Readonly<Record<string, string>> = {
  "effect unknown": " (--effect-unknown includes them)",
  "not confirmed": " (run this again once the chain confirms them at the configured depth)",
};

function leftOutText(leftOut: Chosen["leftOut"]): string[] {
  return [...leftOut].map(([obstacle, times]) => `${times} left out: ${obstacle}${ADVICE[obstacle] ?? ""}`);
}

/** Exports the cases that were listed, as far as they are still cases. */
async function exportCases(
  deps: ProgramDeps,
  operations: Operations,
  chosen: Chosen,
  options: RefundListOptions,
): Promise<number> {
  const { cases, leftOut, refused } = chosen;
  const { printError, note, print } = deps;
  if (refused.length > 0) {
    printError(`${refused.join("\n")}\nnothing was exported\n`);
    return EXIT.failed;
  }
  const [network, ...others] = [...new Set(cases.map(({ terms }) => terms.network))];
  if (network === undefined) {
    note(`nothing was exported: ${countText(chosen)}\n`);
    return EXIT.ok;
  }
  if (others.length > 0) {
    const all = [network, ...others].join(", ");
    printError(
      `error: an export must be of one network, but these refunds are on ${all}; choose one with --network\n`,
    );
    return EXIT.usage;
  }
  const exported = cases.slice(0, options.limit).map(({ call_id }) => call_id);
  const order = { id: newExportId(), call_ids: exported, effect_unknown: options.effectUnknown ?? false };
  const { reason = "postern payments refund-list" } = options;
  const made = await operations.exportRefunds({ ...order, reason }).catch((error: unknown) => {
    if (error instanceof AppError && error.code === "payment.undecidable") return undefined;
    throw error;
  });
  if (made === undefined) {
    note("nothing was exported: these refunds are no longer due\n");
    return EXIT.ok;
  }
  print(inFormat(made, options));
  printError(`export ${made.id}: ${counted(made.rows.length, "refund")} on ${network}\n`);
  const rest = cases.length - made.rows.length;
  if (rest > 0) note(`${counted(rest, "more refund")} due: run this again\n`);
  if (leftOut.size > 0) note(`not exported: ${leftOutText(leftOut).join(", ")}\n`);
  return EXIT.ok;
}

function printAgain(deps: ProgramDeps, made: RefundExportView, options: RefundListOptions): number {
  deps.print(inFormat(made, options));
  for (const { call_id: id, state, late_at: lateAt } of made.rows) {
    if (state === "refunded") deps.printError(`${id} is already refunded\n`);
    if (lateAt !== null) deps.printError(`ATTENTION: ${id}: ${LATE}\n`);
  }
  return EXIT.ok;
}

function inFormat(made: RefundExportView, { csv }: RefundListOptions): string {
  return csv ? toCsv(made) : toBatch(made);
}
