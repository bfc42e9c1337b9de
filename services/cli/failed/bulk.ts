import type { PosternToml } from "../../../shared/config/postern-toml.ts";
import { EXIT, stopSignal } from "../../../shared/lifecycle/run-service.ts";
import { createFailedCalls } from "../../../shared/queue/failed.ts";
import {
  type ManyResult,
  type Operate,
  type OperateDeps,
  operateMany,
  type Progress,
  type Selected,
  select,
} from "../../../shared/queue/operate.ts";
import { shellQuote } from "../../../shared/text/shell-quote.ts";
import { systemClock } from "../../../shared/time/clock.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { operatorName } from "../terminal.ts";
import { jsonLine, plain } from "../text.ts";
import { withRedis } from "../with-redis.ts";
import { type FilterOptions, filterWords, toFilter } from "./filter.ts";
import { whereIs } from "./show.ts";

/** The options that replay and discard have in common. */
export type BulkOptions = FilterOptions & {
  configDir: string;
  all?: boolean;
  dryRun?: boolean;
  concurrency: number;
  json?: boolean;
};

/** How replay and discard differ. */
type BulkKind = {
  verb: "replay" | "discard";
  create: (deps: OperateDeps) => Operate;
  reason?: string;
  /** The subcommand's own options, as words of the command that resumes an interrupted run. */
  flags: readonly string[];
  /** Whether this run leaves the call out, because it was given without --force. */
  needsForce: (call: Selected, postern: PosternToml, now: number) => boolean;
  isConfirmed: (count: number) => Promise<boolean>;
};

/** What came of a run. */
type Outcome = {
  verb: BulkKind["verb"];
  selected: readonly Selected[];
  /** Left out: they need --force. */
  needForce: readonly Selected[];
  /** One sentence for each named call that is not among the failed calls. */
  missing: readonly string[];
  /** Undefined if nothing was begun. */
  result: ManyResult | undefined;
  interrupted: boolean;
};

/**
 * Chooses the calls first, then replays or discards them one by one. Unless --until says otherwise, it chooses only calls
 * that failed before the start: a call that fails again during the run is not taken twice. The command that resumes an
 * interrupted run names the same instant.
 */
export function runBulk(deps: ProgramDeps, given: BulkOptions, kind: BulkKind): Promise<number> {
  const { verb, create, reason, flags, needsForce, isConfirmed } = kind;
  const startedAt = systemClock();
  const options = given.id === undefined ? { ...given, until: given.until ?? startedAt } : given;
  const { id: ids = [], dryRun = false, concurrency } = options;
  const stop = new AbortController();
  void stopSignal().then(() => stop.abort());
  const { signal } = stop;

  return withRedis(deps, options, async ({ partition, postern, log }) => {
    const limit = options.limit === 0 ? Number.POSITIVE_INFINITY : options.limit;
    const selected = await select(createFailedCalls(partition), toFilter(options), { limit, signal });
    const needForce = selected.filter((call) => needsForce(call, postern, startedAt));
    const chosen = selected.filter((call) => !needsForce(call, postern, startedAt));
    const found = new Set(selected.map(({ id }) => id));
    const absent = signal.aborted ? [] : ids.filter((id) => !found.has(id));
    const missing = await Promise.all(absent.map((id) => whereIs(partition, id)));

    const operateAll = async (): Promise<ManyResult> => {
      const bar = deps.terminal.drawsProgress ? createProgressBar(deps.printError) : undefined;
      const result = await operateMany(chosen, {
        operate: create({ partition, log, clock: systemClock, by: operatorName() }),
        why: { selection: selectionOf(options), reason },
        concurrency,
        signal,
        onProgress: (progress) => bar?.update(progress),
      });
      bar?.end();
      await log.flush();
      return result;
    };
    const begins = !dryRun && !signal.aborted && (chosen.length === 0 || (await isConfirmed(chosen.length)));
    const result = begins ? await operateAll() : undefined;

    const outcome = { verb, selected, needForce, missing, result, interrupted: signal.aborted };
    report(deps, options, outcome, resumeLine(options, flags, outcome));
    return exitCode(outcome, dryRun);
  });
}

/** How the calls were chosen, for the audit. */
function selectionOf(options: BulkOptions): string {
  if (options.id !== undefined) return "by id";
  return shellLine([...(options.all ? ["--all"] : []), ...filterWords(options)]);
}

/** The command that does the rest of a run; undefined if nothing is left. */
function resumeLine(
  options: BulkOptions,
  flags: readonly string[],
  { verb, result, interrupted }: Outcome,
): string | undefined {
  if (!interrupted && (result?.remaining.length ?? 0) === 0) return undefined;
  const { all, limit, json, concurrency, configDir } = options;
  const ended = result === undefined ? 0 : result.done + result.left;
  // A filter no longer finds the calls that are done, but a name would be reported as missing.
  const rest =
    result === undefined || options.id === undefined
      ? options
      : { ...options, id: result.remaining.map(({ id }) => id) };
  return shellLine([
    ...["postern", "failed", verb],
    ...(all ? ["--all"] : []),
    ...filterWords(rest),
    ...(limit === 0 ? [] : ["--limit", String(limit - ended)]),
    ...flags,
    ...(json ? ["--json"] : []),
    ...["--concurrency", String(concurrency), "--config-dir", configDir],
  ]);
}

/** Writes words as a line that a shell reads as these words. */
export function shellLine(words: readonly string[]): string {
  return words.map(shellQuote).join(" ");
}

function exitCode({ result, needForce, missing, interrupted }: Outcome, dryRun: boolean): number {
  if (missing.length > 0 || interrupted) return EXIT.failed;
  if (dryRun) return EXIT.ok;
  const isLeft = needForce.length > 0 || result === undefined || result.remaining.length > 0;
  return isLeft ? EXIT.failed : EXIT.ok;
}

function report(
  { print, printError }: ProgramDeps,
  { json, dryRun = false }: BulkOptions,
  outcome: Outcome,
  resume: string | undefined,
): void {
  if (json) {
    print(jsonLine(toJson(outcome, dryRun, resume)));
    return;
  }
  print(summary(outcome, dryRun));
  for (const line of problems(outcome, resume)) printError(`${line}\n`);
}

function toJson(outcome: Outcome, dryRun: boolean, resume: string | undefined) {
  const { verb, selected, needForce, missing, result, interrupted } = outcome;
  return {
    action: verb,
    dry_run: dryRun,
    matched: selected.length,
    by_code: countByCode(selected),
    done: result?.done ?? 0,
    left_meanwhile: result?.left ?? 0,
    remaining: result?.remaining.length ?? selected.length - needForce.length,
    needs_force: needForce.map(({ id }) => id),
    missing,
    interrupted,
    ...(result?.failure && { failure: { code: result.failure.code, reason: result.failure.message } }),
    resume,
  };
}

const PAST = { replay: "replayed", discard: "discarded" } as const;

function summary({ verb, selected, needForce, result }: Outcome, dryRun: boolean): string {
  const n = selected.length;
  if (dryRun) {
    const force = needForce.length > 0 ? `; ${needForce.length} of them would need --force` : "";
    const codes = Object.entries(countByCode(selected)).map(([code, count]) => `  ${code}  ${count}\n`);
    return `${n} ${calls(n)} would be ${PAST[verb]}${force}\n${codes.join("")}`;
  }
  if (result === undefined) return `${n} ${calls(n)} ${n === 1 ? "matches" : "match"}; nothing was changed\n`;
  const elsewhere = result.left > 0 ? `; ${result.left} meanwhile replayed or discarded elsewhere` : "";
  return `${PAST[verb]} ${result.done} of ${n} ${calls(n)}${elsewhere}\n`;
}

const LISTED_MAX = 20;

function problems(outcome: Outcome, resume: string | undefined): string[] {
  const { needForce, missing, result, interrupted } = outcome;
  const n = needForce.length;
  const listed = needForce.slice(0, LISTED_MAX).map(({ id }) => `  ${id}`);
  const more = n > LISTED_MAX ? [`  … and ${n - LISTED_MAX} more`] : [];
  const why =
    "accepted longer ago than the runner remembers keys (runner.memory_secs), so the runner may run it twice";
  return [
    ...missing,
    ...(n > 0 ? [`${n} ${calls(n)} ${n === 1 ? "needs" : "need"} --force: ${why}`, ...listed, ...more] : []),
    ...(result?.failure ? [`stopped: ${plain(result.failure.message)}`] : []),
    ...(interrupted ? ["interrupted"] : []),
    ...(resume === undefined ? [] : ["this command does the rest:", `  ${resume}`]),
  ];
}

function countByCode(selected: readonly Selected[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { code } of selected) counts[code] = (counts[code] ?? 0) + 1;
  return counts;
}

function calls(count: number): string {
  return count === 1 ? "call" : "calls";
}

const BAR_CELLS = 30;
const REDRAW_MS = 100;

/** A progress bar on one line of the screen. `end` takes it off. */
export function createProgressBar(write: (text: string) => void, clock = systemClock) {
  const startedAt = clock();
  let drawnAt = 0;
  return {
    update({ done, left, total }: Progress): void {
      const now = clock();
      const ended = done + left;
      if (now - drawnAt < REDRAW_MS && ended < total) return;
      drawnAt = now;
      const share = ended / total;
      const full = Math.floor(share * BAR_CELLS);
      const bar = `[${"#".repeat(full)}${".".repeat(BAR_CELLS - full)}] ${Math.floor(share * 100)} %`;
      const rate = Math.round((ended * 1000) / Math.max(1, now - startedAt));
      write(`\r\x1b[K${bar} ${ended}/${total} ${rate}/s`);
    },
    end(): void {
      if (drawnAt !== 0) write("\r\x1b[K");
    },
  };
}
