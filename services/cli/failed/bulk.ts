import { type BulkRequest, type Counted, filterWords } from "../../../shared/console/bulk.ts";
import { withStopSignal } from "../../../shared/platform/lifecycle/run-service.ts";
import { shellLine } from "../../../shared/platform/text/shell-quote.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { refuseUnknownPath } from "../endpoint/unknown-path.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { type Operated, withOperations } from "../with-operations.ts";
import { type FilterOptions, toFilter } from "./filter.ts";
import { createProgress } from "./progress.ts";
import { doneText, exitCode, type Outcome, report } from "./report.ts";

/** The options that replay and discard have in common. */
export type BulkOptions = FilterOptions &
  Operated & {
    all?: boolean;
    dryRun?: boolean;
    concurrency: number;
    json?: boolean;
    quiet?: boolean;
  };

/** How replay and discard differ. */
type BulkKind = Pick<BulkRequest, "action" | "reason" | "force"> & {
  /** The subcommand's own options, as words of the command that resumes an interrupted run. */
  flags: readonly string[];
  isConfirmed: (counted: Counted) => Promise<boolean>;
};

/**
 * Counts the calls first, then replays or discards them. Unless --until says otherwise, it chooses only calls that failed before the start.
 * The command that resumes an interrupted run names the same start.
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
  const { flags, isConfirmed, ...wanted } = kind;
  const { action } = wanted;
  const options = given.id === undefined ? { ...given, until: given.until ?? systemClock() } : given;
  const { dryRun = false, concurrency, limit } = options;
  const { ids, ...filter } = toFilter(options);
  const request: BulkRequest = {
    ...wanted,
    filter,
    ids,
    concurrency,
    limit: limit === 0 ? undefined : limit,
  };

  return withOperations(deps, options, async ({ bulk, configuredNames }) => {
    const counted = await bulk.count(request, signal);
    const refused =
      counted.matched === 0
        ? await refuseUnknownPath(deps, options.endpoint, { configuredNames })
        : undefined;
    const unfinished = new Set(counted.named);

    const operateAll = async () => {
      const shown = createProgress(deps, {
        ...options,
        doneText: (done, total) => doneText(action, done, total),
      });
      const result = await bulk.operate(request, counted, {
        signal,
        onProgress: (progress) => shown.update(progress),
        onDone: (id) => unfinished.delete(id),
      });
      shown.end();
      return result;
    };
    const { chosen } = counted;
    const begins =
      refused === undefined && !dryRun && !signal.aborted && (chosen === 0 || (await isConfirmed(counted)));
    const result = begins ? await operateAll() : undefined;

    const outcome = { action, counted, unfinished, result, interrupted: signal.aborted };
    report(deps, options, outcome, resumeLine(options, flags, outcome));
    return refused ?? exitCode(outcome, dryRun);
  });
}

/** The options as the words of a command line that chooses the same calls. */
function wordsOf(options: FilterOptions): string[] {
  const { ids = [], ...filter } = toFilter(options);
  return [...ids, ...filterWords(filter)];
}

/** The command that does the rest of a run; undefined if nothing is left. */
function resumeLine(
  options: BulkOptions,
  flags: readonly string[],
  { action, unfinished, result, interrupted }: Outcome,
): string | undefined {
  if (!interrupted && (result?.remaining ?? 0) === 0) return undefined;
  const { all, limit, json, quiet, concurrency, configDir, operator } = options;
  const ended = result === undefined ? 0 : result.done + result.left;
  // A filter no longer finds the calls that are done, but a name would be reported as missing.
  const rest =
    result === undefined || options.id === undefined ? options : { ...options, id: [...unfinished] };
  return shellLine([
    ...["postern", "failed", action],
    ...(all ? ["--all"] : []),
    ...wordsOf(rest),
    ...(limit === 0 ? [] : ["--limit", String(limit - ended)]),
    ...flags,
    ...(json ? ["--json"] : []),
    ...(quiet ? ["--quiet"] : []),
    ...(operator === undefined ? [] : ["--operator", operator.href]),
    ...["--concurrency", String(concurrency), "--config-dir", configDir],
  ]);
}
