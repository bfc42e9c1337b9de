import type { BulkAction, BulkResult, Counted } from "../../../shared/console/bulk.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { isErrorCode } from "../../../shared/platform/errors/codes.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine, plain } from "../text.ts";
import { paidLines } from "./paid-lines.ts";

/** What came of a run. */
export type Outcome = {
  action: BulkAction;
  counted: Counted;
  /** The ids of calls that were named and that this run has not come to. */
  unfinished: ReadonlySet<string>;
  /** Undefined if nothing was begun. */
  result: BulkResult | undefined;
  interrupted: boolean;
};

export function exitCode({ counted, result, interrupted }: Outcome, dryRun: boolean): number {
  if (counted.missing.length > 0 || interrupted) return EXIT.failed;
  if (dryRun) return EXIT.ok;
  const isUnfinished = counted.matched > counted.chosen || result === undefined || result.remaining > 0;
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

/** The problem has a code if the one call that was named has one. */
function toProblem(text: string, { counted: { missing, matched } }: Outcome): string | AppError {
  const [only, ...others] = missing;
  const isAlone = only !== undefined && others.length === 0 && matched === 0;
  return isAlone && isErrorCode(only.code) ? new AppError(only.code, { reason: text }) : `${text}\n`;
}

function toJson(outcome: Outcome, dryRun: boolean, resume: string | undefined) {
  const { action, counted, result, interrupted } = outcome;
  const { matched, chosen, by_code, paid, needs_force, missing } = counted;
  return {
    action,
    dry_run: dryRun,
    matched,
    by_code,
    paid,
    done: result?.done ?? 0,
    left_meanwhile: result?.left ?? 0,
    refunds_due: result?.refundsDue ?? null,
    remaining: result?.remaining ?? chosen,
    needs_force_count: matched - chosen,
    needs_force,
    missing: missing.map(({ detail }) => detail),
    interrupted,
    ...(result?.failure && { failure: { code: result.failure.code, reason: result.failure.message } }),
    resume,
  };
}

const WORDS = { replay: "replayed", discard: "discarded" } as const;

/** Tells how many calls are done, in the middle of a run and at its end. */
export function doneText(action: BulkAction, done: number, total: number): string {
  const of = done === total ? "" : ` of ${total}`;
  return `${WORDS[action]} ${done}${of} ${calls(total)}`;
}

function summary({ action, counted, result }: Outcome, dryRun: boolean): string {
  const { matched: n, chosen, by_code, paid } = counted;
  if (dryRun) {
    const force = n > chosen ? `; ${n - chosen} of them ${n - chosen === 1 ? "needs" : "need"} --force` : "";
    const codes = Object.entries(by_code).map(([code, count]) => `  ${code}  ${count}\n`);
    return `${n} ${calls(n)} would be ${WORDS[action]}${force}\n${codes.join("")}${toText(paidLines(paid, "before"))}`;
  }
  if (result === undefined) return `${n} ${calls(n)} ${n === 1 ? "matches" : "match"}; nothing was changed\n`;
  const { left } = result;
  const elsewhere = left > 0 ? `; ${left} ${left === 1 ? "was" : "were"} no longer failed` : "";
  const due = paidLines(result.refundsDue, "after", result.refundsDue?.is_whole === false);
  return `${doneText(action, result.done, n)}${elsewhere}\n${toText(due)}`;
}

function toText(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join("");
}

const LISTED_MAX = 20;

function problems(outcome: Outcome, resume: string | undefined): string[] {
  const { counted, result, interrupted } = outcome;
  const n = counted.matched - counted.chosen;
  const listed = counted.needs_force.slice(0, LISTED_MAX).map((id) => `  ${id}`);
  const more = n > LISTED_MAX ? [`  … and ${n - LISTED_MAX} more`] : [];
  const [were, them] = n === 1 ? ["it was", "it"] : ["they were", "them"];
  const why = `${were} accepted more than runner.memory_secs ago, so the runner may have forgotten ${them} and may run ${them} twice`;
  return [
    ...counted.missing.map(({ detail }) => detail),
    ...(n > 0 ? [`${n} ${calls(n)} ${n === 1 ? "needs" : "need"} --force: ${why}`, ...listed, ...more] : []),
    ...(result?.failure ? [`stopped: ${plain(result.failure.message)}`] : []),
    ...(interrupted ? ["interrupted"] : []),
    ...(resume === undefined ? [] : ["to continue, run:", `  ${resume}`]),
  ];
}

function calls(count: number): string {
  return count === 1 ? "call" : "calls";
}
