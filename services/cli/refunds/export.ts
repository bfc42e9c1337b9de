import type { Operations } from "../../../shared/console/contract/contract.ts";
import type { RefundExportView } from "../../../shared/console/refunds.ts";
import { EXPORT_ID, newExportId } from "../../../shared/payments/refund-export.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { pagesOf } from "../pagination.ts";
import { LATE } from "../payments/show.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { counted, jsonLine, NO_REASON } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";
import { type CasesOptions, type Chosen, countText, leftOutText, PAGE_MAX, withCases } from "./cases.ts";
import { toBatch, toCsv } from "./formats.ts";

export type ShowOptions = OperationTarget & { output: Form };
export type ExportOptions = CasesOptions & { output: Form; limit: number; reason?: string };

/**
 * `postern refunds export`: marks the selected refunds as exported, and prints them in a format for a wallet, which
 * then pays them.
 */
export function exportRefunds(
  deps: ProgramDeps,
  ids: readonly string[],
  options: ExportOptions,
): Promise<number> {
  return withCases(deps, ids, options, (operations, chosen) =>
    exportCases(deps, operations, chosen, options),
  );
}

/** `postern refunds show`: prints an earlier export again. */
export function showExport(deps: ProgramDeps, id: string, options: ShowOptions): Promise<number> {
  return withOperations(deps, options, async (operations) => {
    const export_id = await exportIdOf(operations, id);
    return printAgain(deps, await operations.getRefundExport({ export_id }), options);
  });
}

/**
 * Returns the id of the export that the user named, by its id or a unique prefix of it. There is no list of exports, so
 * a prefix is compared with the exports that the listed refunds name.
 */
async function exportIdOf({ listRefunds }: Operations, named: string): Promise<string> {
  if (EXPORT_ID.test(named)) return named;
  const found = new Set<string>();
  const read = (cursor?: string) => listRefunds({ limit: PAGE_MAX, cursor });
  for await (const { refund } of pagesOf(read, ({ payments }) => payments))
    if (refund?.export.startsWith(named)) found.add(refund.export);
  const [only, ...others] = found;
  if (only !== undefined && others.length === 0) return only;
  if (only === undefined)
    throw AppError.public(
      "refund.unknown",
      `no export of a pending refund has an id that starts with ${named}`,
    );
  throw new Error(`several exports have an id that starts with ${named}: ${[...found].join(", ")}`);
}

/** Exports the selected refunds, except those that have changed since they were listed. */
async function exportCases(
  deps: ProgramDeps,
  operations: Operations,
  chosen: Chosen,
  options: ExportOptions,
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
  const { reason = NO_REASON } = options;
  const made = await operations.exportRefunds({ ...order, reason }).catch((error: unknown) => {
    if (error instanceof AppError && error.code === "payment.undecidable") return undefined;
    throw error;
  });
  if (made === undefined) {
    note("nothing was exported: these refunds can no longer be exported\n");
    return EXIT.ok;
  }
  print(inForm(made, options));
  printError(`export ${made.id}: ${counted(made.rows.length, "refund")} on ${network}\n`);
  const rest = cases.length - made.rows.length;
  if (rest > 0) note(`${counted(rest, "more refund")} to export: run this again\n`);
  if (leftOut.size > 0) note(`not exported: ${leftOutText(leftOut).join(", ")}\n`);
  return EXIT.ok;
}

function printAgain(deps: ProgramDeps, made: RefundExportView, options: ShowOptions): number {
  deps.print(inForm(made, options));
  for (const { call_id: id, state, late_at: lateAt } of made.rows) {
    if (state === "refunded") deps.printError(`${id} is already refunded\n`);
    if (lateAt !== null) deps.printError(`ATTENTION: ${id}: ${LATE}\n`);
  }
  return EXIT.ok;
}

type Form = "csv" | "calldata" | "json";

function inForm(made: RefundExportView, { output }: ShowOptions): string {
  if (output === "json") return jsonLine(made);
  return output === "csv" ? toCsv(made) : toBatch(made);
}
