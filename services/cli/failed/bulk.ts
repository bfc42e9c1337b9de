import { type BulkAction, filterWords } from "../../../shared/console/bulk.ts";
import type { Operations } from "../../../shared/console/contract/contract.ts";
import type { FailedBulkView } from "../../../shared/console/failed-bulk.ts";
import { withStopSignal } from "../../../shared/platform/lifecycle/run-service.ts";
import { shellLine } from "../../../shared/platform/text/shell-quote.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { callIdsOf } from "../call-ids.ts";
import { refuseUnknownPath } from "../endpoints/unknown-path.ts";
import { failureOf, followBulk } from "../follow-bulk.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { NO_REASON } from "../text.ts";
import { type OperationTarget, withOperations } from "../with-operations.ts";
import { type FilterOptions, toFilter } from "./filter.ts";
import { createProgress } from "./progress.ts";
import { doneText, exitCode, type Outcome, report, selectedCount } from "./report.ts";

/** Options that `postern failed replay` and `postern failed discard` share. */
export type BulkOptions = FilterOptions &
  OperationTarget & {
    all?: boolean;
    dryRun?: boolean;
    concurrency: number;
    json?: boolean;
    quiet?: boolean;
  };

/** Properties in which `postern failed replay` and `postern failed discard` differ. */
type BulkKind = {
  action: BulkAction;
  force: boolean;
  reason: string | undefined;
  /**
   * Options such as --force. If the operation does not finish, the command prints a command line that continues it, and
   * repeats these options there.
   */
  flags: readonly string[];
  isConfirmed: (counted: FailedBulkView) => Promise<boolean>;
};

/**
 * Counts the selected calls, asks for confirmation if necessary, and then replays or discards them. If the user gave
 * neither ids nor --until, selects only calls that failed before the command started. If calls remain, for example
 * after Ctrl-C, prints a command line that continues with the same selection.
 */
export function runBulk(deps: ProgramDeps, given: BulkOptions, kind: BulkKind): Promise<number> {
  return withStopSignal((stopped) => {
    const stop = new AbortController();
    void stopped.then(() => stop.abort());
    return runUntil(stop.signal, deps, given, kind);
  });
}

function runUntil(
  signal: AbortSignal,
  deps: ProgramDeps,
  given: BulkOptions,
  kind: BulkKind,
): Promise<number> {
  const { action, flags, isConfirmed } = kind;
  return withOperations(deps, given, async (operations) => {
    const options = await resolveSelection(operations, given);
    const { dryRun = false } = options;
    const begin = createBegin(operations, options, kind);
    const counted = await followBulk(operations, await begin(true), { signal });
    const failure = failureOf(counted);
    if (failure !== undefined) throw failure;
    const refused =
      counted.matched === 0 ? await refuseUnknownPath(deps, options.endpoint, operations) : undefined;

    const operateAll = async () => {
      const shown = createProgress(deps, {
        ...options,
        doneText: (done, total) => doneText(action, done, total),
      });
      const total = selectedCount(counted);
      const onProgress = ({ done, left_meanwhile: left }: FailedBulkView) =>
        shown.update({ done, left, total });
      const result = await followBulk(operations, await begin(false), { signal, onProgress });
      shown.end();
      return result;
    };
    const begins =
      refused === undefined &&
      !dryRun &&
      !signal.aborted &&
      (selectedCount(counted) === 0 || (await isConfirmed(counted)));
    const result = begins ? await operateAll() : undefined;

    const outcome = { action, counted, result, interrupted: signal.aborted };
    report(deps, options, outcome, resumeLine(options, flags, outcome));
    return refused ?? exitCode(outcome, dryRun);
  });
}

/**
 * Replaces prefixes of ids by the full ids. If no ids are given, sets --until to now, so that calls that fail later are
 * not selected.
 */
async function resolveSelection(operations: Operations, given: BulkOptions): Promise<BulkOptions> {
  if (given.call === undefined) return { ...given, until: given.until ?? systemClock() };
  return { ...given, call: await callIdsOf(operations, given.call) };
}

/** Returns a function that starts the bulk operation. With `isDry`, the operation only counts the calls and changes none. */
function createBegin(operations: Operations, options: BulkOptions, { action, force, reason }: BulkKind) {
  const { concurrency, limit } = options;
  const { ids, ...filter } = toFilter(options);
  const order = {
    concurrency,
    reason: reason ?? NO_REASON,
    ...(ids === undefined ? { filter } : { call_ids: ids }),
    ...(limit !== 0 && { limit }),
  };
  return (isDry: boolean): Promise<FailedBulkView> => {
    const asked = { ...order, dry_run: isDry };
    return action === "replay" ? operations.beginReplay({ ...asked, force }) : operations.beginDiscard(asked);
  };
}

/** Formats the options as command-line words that select the same calls. */
function wordsOf(options: FilterOptions): string[] {
  const { ids = [], ...filter } = toFilter(options);
  return [...ids, ...filterWords(filter)];
}

/** Returns the command that continues a bulk operation; undefined if nothing is left to do. */
function resumeLine(
  options: BulkOptions,
  flags: readonly string[],
  { action, result, interrupted }: Outcome,
): string | undefined {
  if (!interrupted && (result?.remaining ?? 0) === 0) return undefined;
  const { all, limit, json, quiet, concurrency, configDir, operator } = options;
  const ended = result === undefined ? 0 : result.done + result.left_meanwhile;
  return shellLine([
    ...["postern", "failed", action],
    ...(all ? ["--all"] : []),
    ...wordsOf(options),
    ...(limit === 0 ? [] : ["--limit", String(limit - ended)]),
    ...flags,
    ...(json ? ["-o", "json"] : []),
    ...(quiet ? ["--quiet"] : []),
    ...(operator === undefined ? [] : ["--operator", operator.href]),
    ...["--concurrency", String(concurrency), "--config-dir", configDir],
  ]);
}
