import type { BulkAction } from "../../../shared/console/bulk.ts";
import type { FailedBulkView } from "../../../shared/console/failed-bulk.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { isErrorCode } from "../../../shared/platform/errors/codes.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine, plain } from "../text.ts";
import { paidLines } from "./paid-lines.ts";

/** Outcome of a bulk operation. */
export type Outcome = {
  action: BulkAction;
  counted: FailedBulkView;
  /** Undefined if no replay or discard was started. */
  result: FailedBulkView | undefined;
  interrupted: boolean;
};

/**
 * Returns how many of the counted calls will be replayed or discarded. The others match too, but are so old that only
 * `--force` replays them.
 */
export function selectedCount({ matched, needs_force_count }: FailedBulkView): number {
  return (matched ?? 0) - (needs_force_count ?? 0);
}

export function exitCode({ counted, result, interrupted }: Outcome, dryRun: boolean): number {
  if (counted.missing.length > 0 || interrupted) return EXIT.failed;
  if (dryRun) return EXIT.ok;
  const isUnfinished = (counted.needs_force_count ?? 0) > 0 || (result?.remaining ?? 1) > 0;
  return isUnfinished ? EXIT.failed : EXIT.ok;
}

export function report(
  { print, say, printError, paint }: ProgramDeps,
  { json, dryRun = false }: { json?: boolean; dryRun?: boolean },
  outcome: Outcome,
  resume: string | undefined,
): void {
  if (json) print(jsonLine(toJson(outcome, dryRun, resume)));
  else if (dryRun) print(summary(outcome, dryRun));
  else say(paint(exitCode(outcome, dryRun) === EXIT.ok ? "good" : "attention", summary(outcome, dryRun)));
  const lines = problems(outcome, resume);
  const isWrong = exitCode(outcome, dryRun) !== EXIT.ok;
  if (lines.length > 0 && (isWrong || !json)) printError(toProblem(lines.join("\n"), outcome));
}

/**
 * Makes the error to print. Usually this is only text. If the command named one call and that call is not among the
 * failed ones, the error also has the code that says why.
 */
function toProblem(text: string, { counted: { missing, matched } }: Outcome): string | AppError {
  const [only, ...others] = missing;
  const isAlone = only !== undefined && others.length === 0 && !matched;
  return isAlone && isErrorCode(only.code) ? new AppError(only.code, { reason: text }) : `${text}\n`;
}

/** Returns the output for -o json: the outcome of the bulk operation, or only the count if no operation was started. */
function toJson({ counted, result, interrupted }: Outcome, dryRun: boolean, resume: string | undefined) {
  return { ...(result ?? counted), dry_run: dryRun, interrupted, resume };
}

const WORDS = { replay: "replayed", discard: "discarded" } as const;

/** Says how many calls are done, during a bulk operation and at its end. */
export function doneText(action: BulkAction, done: number, total: number): string {
  const of = done === total ? "" : ` of ${total}`;
  return `${WORDS[action]} ${done}${of} ${calls(total)}`;
}

function summary({ action, counted, result }: Outcome, dryRun: boolean): string {
  const { by_code, paid, needs_force_count: forced } = counted;
  const n = counted.matched ?? 0;
  if (dryRun) {
    const force = forced ? `; ${forced} of them ${forced === 1 ? "needs" : "need"} --force` : "";
    const codes = Object.entries(by_code ?? {}).map(([code, count]) => `  ${code}  ${count}\n`);
    return `${n} ${calls(n)} would be ${WORDS[action]}${force}\n${codes.join("")}${toText(paidLines(paid, "before"))}`;
  }
  if (result === undefined) return `${n} ${calls(n)} ${n === 1 ? "matches" : "match"}; nothing was changed\n`;
  const { left_meanwhile: left, refunds_due: due } = result;
  const elsewhere = left > 0 ? `; ${left} ${left === 1 ? "was" : "were"} no longer failed` : "";
  const paidBack = paidLines(due, "after", due?.is_whole === false);
  return `${doneText(action, result.done, n)}${elsewhere}\n${toText(paidBack)}`;
}

function toText(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join("");
}

const LISTED_MAX = 20;

function problems(outcome: Outcome, resume: string | undefined): string[] {
  const { counted, result, interrupted } = outcome;
  const n = counted.needs_force_count ?? 0;
  const listed = counted.needs_force.slice(0, LISTED_MAX).map((id) => `  ${id}`);
  const more = n > LISTED_MAX ? [`  … and ${n - LISTED_MAX} more`] : [];
  const [were, them] = n === 1 ? ["it was", "it"] : ["they were", "them"];
  const why = `${were} accepted more than runner.memory_secs ago, so the runner may have forgotten ${them} and may run ${them} twice`;
  return [
    ...counted.missing.map(({ detail }) => detail),
    ...(n > 0 ? [`${n} ${calls(n)} ${n === 1 ? "needs" : "need"} --force: ${why}`, ...listed, ...more] : []),
    ...(result?.failure ? [`stopped: ${plain(result.failure.reason)}`] : []),
    ...(interrupted ? ["interrupted"] : []),
    ...(resume === undefined ? [] : ["to continue, run:", `  ${resume}`]),
  ];
}

function calls(count: number): string {
  return count === 1 ? "call" : "calls";
}
