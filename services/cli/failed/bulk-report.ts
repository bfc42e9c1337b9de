import type { ManyResult, Selected } from "../../../shared/queue/operate.ts";
import { plain } from "../plain.ts";
import type { ProgramDeps } from "../program-deps.ts";

export type BulkReport = {
  verb: "replay" | "discard";
  selected: readonly Selected[];
  /** Refused without --force. */
  held: readonly Selected[];
  /** Named calls that are not failed: where they are. */
  missing: readonly string[];
  /** Undefined when nothing was begun. */
  result: ManyResult | undefined;
  interrupted: boolean;
  /** The command that does what is left. */
  resume: string | undefined;
};

const PAST = { replay: "replayed", discard: "discarded" } as const;
const HELD_LISTED = 20;

/** Says what came of a bulk run: for people, or as one JSON object on stdout. */
export function report(
  { print, printError }: ProgramDeps,
  { json, dryRun }: { json?: boolean; dryRun?: boolean },
  outcome: BulkReport,
): void {
  if (json) {
    print(`${JSON.stringify(toJson(outcome, dryRun ?? false))}\n`);
    return;
  }
  print(summary(outcome, dryRun ?? false));
  for (const line of problems(outcome)) printError(`${line}\n`);
}

function toJson({ verb, selected, held, missing, result, interrupted, resume }: BulkReport, dryRun: boolean) {
  return {
    action: verb,
    dry_run: dryRun,
    matched: selected.length,
    by_code: byCode(selected),
    done: result?.done ?? 0,
    left_meanwhile: result?.left ?? 0,
    remaining: result?.remaining.length ?? selected.length - held.length,
    needs_force: held.map(({ id }) => id),
    missing,
    interrupted,
    ...(result?.failure && { failure: { code: result.failure.code, reason: result.failure.message } }),
    resume,
  };
}

function summary({ verb, selected, result, held }: BulkReport, dryRun: boolean): string {
  const n = selected.length;
  if (dryRun) {
    const force = held.length > 0 ? `; ${held.length} of them would need --force` : "";
    const codes = Object.entries(byCode(selected)).map(([code, count]) => `  ${code}  ${count}\n`);
    return `${n} ${calls(n)} would be ${PAST[verb]}${force}\n${codes.join("")}`;
  }
  if (result === undefined) return `${n} ${calls(n)} match; nothing was changed\n`;
  const meanwhile =
    result.left > 0 ? `; ${result.left} left meanwhile (replayed or discarded elsewhere)` : "";
  return `${PAST[verb]} ${result.done} of ${n} ${calls(n)}${meanwhile}\n`;
}

function problems({ held, missing, result, interrupted, resume }: BulkReport): string[] {
  const listed = held.slice(0, HELD_LISTED).map(({ id }) => `  ${id}`);
  const more = held.length > HELD_LISTED ? [`  … and ${held.length - HELD_LISTED} more`] : [];
  const why =
    "accepted longer ago than the runner remembers keys (runner.memory_secs), so it may run it twice";
  return [
    ...missing,
    ...(held.length > 0
      ? [`${held.length} ${calls(held.length)} needs --force: ${why}`, ...listed, ...more]
      : []),
    ...(result?.failure ? [`stopped: ${plain(result.failure.message)}`] : []),
    ...(interrupted ? ["interrupted"] : []),
    ...(resume === undefined ? [] : ["the rest is done by:", `  ${resume}`]),
  ];
}

function byCode(selected: readonly Selected[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { code } of selected) counts[code] = (counts[code] ?? 0) + 1;
  return counts;
}

function calls(count: number): string {
  return count === 1 ? "call" : "calls";
}
