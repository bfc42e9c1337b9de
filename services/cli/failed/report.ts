import { AppError, messageOf } from "../../../shared/errors/app-error.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import type { ManyResult } from "../../../shared/queue/operate.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { jsonLine, plain } from "../text.ts";

/** What is kept of the calls that a run has counted. */
export type Counted = {
  matched: number;
  /** Those of them that it replays or discards. */
  chosen: number;
  /** When the last of them failed (unix ms). */
  newest: number;
  byCode: Record<string, number>;
  /** The first ids of those left out, because they need --force. */
  needForce: string[];
  /** The ids of calls that were named: those that have failed, and those of them that this run has not come to. */
  found: Set<string>;
  unfinished: Set<string>;
};

/** What came of a run. */
export type Outcome = {
  verb: "replay" | "discard";
  counted: Counted;
  /** Where each named call is that is not among the failed calls, in a sentence. */
  missing: readonly Error[];
  /** Undefined if nothing was begun. */
  result: ManyResult | undefined;
  interrupted: boolean;
};

export function exitCode({ counted, result, missing, interrupted }: Outcome, dryRun: boolean): number {
  if (missing.length > 0 || interrupted) return EXIT.failed;
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
function toProblem(text: string, { missing, counted }: Outcome): string | AppError {
  const [only, ...others] = missing;
  const isAlone = others.length === 0 && counted.matched === 0;
  return isAlone && only instanceof AppError ? new AppError(only.code, { reason: text }) : `${text}\n`;
}

function toJson(outcome: Outcome, dryRun: boolean, resume: string | undefined) {
  const { verb, counted, missing, result, interrupted } = outcome;
  const { matched, chosen, byCode, needForce } = counted;
  return {
    action: verb,
    dry_run: dryRun,
    matched,
    by_code: byCode,
    done: result?.done ?? 0,
    left_meanwhile: result?.left ?? 0,
    remaining: result?.remaining ?? chosen,
    needs_force_count: matched - chosen,
    needs_force: needForce,
    missing: missing.map(messageOf),
    interrupted,
    ...(result?.failure && { failure: { code: result.failure.code, reason: result.failure.message } }),
    resume,
  };
}

export const PAST = { replay: "replayed", discard: "discarded" } as const;

function summary({ verb, counted, result }: Outcome, dryRun: boolean): string {
  const { matched: n, chosen, byCode } = counted;
  if (dryRun) {
    const force = n > chosen ? `; ${n - chosen} of them would need --force` : "";
    const codes = Object.entries(byCode).map(([code, count]) => `  ${code}  ${count}\n`);
    return `${n} ${calls(n)} would be ${PAST[verb]}${force}\n${codes.join("")}`;
  }
  if (result === undefined) return `${n} ${calls(n)} ${n === 1 ? "matches" : "match"}; nothing was changed\n`;
  const elsewhere = result.left > 0 ? `; ${result.left} meanwhile replayed or discarded elsewhere` : "";
  return `${PAST[verb]} ${result.done} of ${n} ${calls(n)}${elsewhere}\n`;
}

const LISTED_MAX = 20;

function problems(outcome: Outcome, resume: string | undefined): string[] {
  const { counted, missing, result, interrupted } = outcome;
  const n = counted.matched - counted.chosen;
  const listed = counted.needForce.slice(0, LISTED_MAX).map((id) => `  ${id}`);
  const more = n > LISTED_MAX ? [`  … and ${n - LISTED_MAX} more`] : [];
  const why =
    "accepted longer ago than the runner remembers keys (runner.memory_secs), so the runner may run it twice";
  return [
    ...missing.map(messageOf),
    ...(n > 0 ? [`${n} ${calls(n)} ${n === 1 ? "needs" : "need"} --force: ${why}`, ...listed, ...more] : []),
    ...(result?.failure ? [`stopped: ${plain(result.failure.message)}`] : []),
    ...(interrupted ? ["interrupted"] : []),
    ...(resume === undefined ? [] : ["this command does the rest:", `  ${resume}`]),
  ];
}

function calls(count: number): string {
  return count === 1 ? "call" : "calls";
}
