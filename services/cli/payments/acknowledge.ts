import type { AcknowledgeView } from "../../../shared/console/acknowledge-bulk.ts";
import { EXIT, withStopSignal } from "../../../shared/platform/lifecycle/run-service.ts";
import { callIdsOf } from "../call-ids.ts";
import { failureOf, followBulk } from "../follow-bulk.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { counted, jsonLine } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";
import { type FilterOptions, toFilter } from "./filter.ts";

/** Options that select the payments to acknowledge if the user names no ids. */
export type SelectionOptions = FilterOptions & { all?: true };

type AcknowledgeOptions = SelectionOptions & OperationTarget & { reason: string; json?: boolean };

/**
 * `postern payments resolve --acknowledged` for several disputed payments: those with the given ids, or all that match
 * the options. Exit code 1 if a named payment is unknown, or if the command was interrupted. To continue after an
 * interruption, run the same command again.
 */
export function acknowledgePayments(
  deps: ProgramDeps,
  named: readonly string[],
  { reason, all, json, ...options }: AcknowledgeOptions,
): Promise<number> {
  return withStopSignal((stopped) => {
    const stop = new AbortController();
    void stopped.then(() => stop.abort());
    return withOperations(deps, options, async (operations) => {
      const ids = await callIdsOf(operations, named);
      const chosen = ids.length > 0 ? { call_ids: ids } : { filter: toFilter(options), all };
      const begun = await operations.beginAcknowledge({ ...chosen, reason });
      const run = await followBulk(operations, begun, { signal: stop.signal });
      if (json) deps.print(jsonLine(run));
      return report(deps, run);
    });
  });
}

function report({ say, printError }: ProgramDeps, run: AcknowledgeView): number {
  const { done, unchanged, missing, state } = run;
  const others = unchanged === 0 ? "" : `; ${unchanged} not disputed, or acknowledged before`;
  say(`acknowledged ${counted(done, "disputed payment")}${others}\n`);
  for (const { detail } of missing) printError(`${detail}\n`);
  const failure = failureOf(run);
  if (failure !== undefined) throw failure;
  if (state === "cancelled") printError("interrupted; to continue, run the same command again\n");
  return state === "done" && missing.length === 0 ? EXIT.ok : EXIT.failed;
}
