import type { PosternToml } from "../../../shared/config/postern-toml.ts";
import { EXIT } from "../../../shared/lifecycle/run-service.ts";
import { stopSignal } from "../../../shared/lifecycle/stop-signal.ts";
import { createFailedCalls } from "../../../shared/queue/failed-calls.ts";
import {
  type ManyResult,
  operateMany,
  type Progress,
  type Selected,
  select,
} from "../../../shared/queue/operate-many.ts";
import type { Operate, OperateDeps } from "../../../shared/queue/replay.ts";
import { type Clock, systemClock } from "../../../shared/time/clock.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { operatorName } from "../terminal.ts";
import { plain } from "../text.ts";
import { type Session, withRedis } from "../with-redis.ts";
import { type FilterOptions, selectionWords, shellLine, toFilter } from "./filter.ts";
import { whereIs } from "./show.ts";

/** What replay and discard do differently. */
type BulkKind = {
  verb: "replay" | "discard";
  create: (deps: OperateDeps) => Operate;
  reason?: string;
  /** Its own options, as words, for the command that resumes an interrupted run. */
  flags: readonly string[];
  /** Whether a call is refused in this run. */
  holdsBack: (call: Selected, postern: PosternToml, now: number) => boolean;
  isConfirmed: (count: number) => Promise<boolean>;
};

/**
 * Chooses the calls first and then does one after the other. Unless told otherwise only calls failed before the start are
 * chosen, so that one which fails again during the run is not taken twice; the command to resume says the same instant.
 */
export function runBulk(deps: ProgramDeps, given: BulkOptions, kind: BulkKind): Promise<number> {
  const startedAt = systemClock();
  const options = given.id === undefined ? { ...given, until: given.until ?? startedAt } : given;
  const stop = new AbortController();
  void stopSignal().then(() => stop.abort());
  return withRedis(deps, options, async (session) => {
    const limit = options.limit === 0 ? Number.POSITIVE_INFINITY : options.limit;
    const calls = createFailedCalls(session.redis);
    const selected = await select(calls, toFilter(options), { limit, signal: stop.signal });
    const isHeld = (call: Selected) => kind.holdsBack(call, session.postern, startedAt);
    const held = selected.filter(isHeld);
    const free = selected.filter((call) => !isHeld(call));
    const missing = stop.signal.aborted ? [] : await findMissing(session, options, selected);
    const begun = await begin({ deps, options, kind, session, free, stop });
    const outcome = {
      verb: kind.verb,
      selected,
      held,
      missing,
      result: begun,
      interrupted: stop.signal.aborted,
    };
    report(deps, options, { ...outcome, resume: resumeLine(options, kind.flags, outcome) });
    return exitCode(outcome, options);
  });
}

type Begun = {
  deps: ProgramDeps;
  options: BulkOptions;
  kind: BulkKind;
  session: Session;
  free: readonly Selected[];
  stop: AbortController;
};

/** Undefined when nothing was begun: a dry run, an interruption, or a person who thought better of it. */
async function begin({ deps, options, kind, session, free, stop }: Begun): Promise<ManyResult | undefined> {
  if (options.dryRun || stop.signal.aborted) return undefined;
  if (free.length > 0 && !(await kind.isConfirmed(free.length))) return undefined;
  const { redis, log } = session;
  const bar = deps.terminal.drawsProgress ? createProgressBar(deps.printError) : undefined;
  const result = await operateMany(free, {
    operate: kind.create({ redis, log, clock: systemClock, by: operatorName() }),
    why: { selection: selectionOf(options), reason: kind.reason },
    concurrency: options.concurrency,
    signal: stop.signal,
    onProgress: (progress) => bar?.update(progress),
  });
  bar?.end();
  log.flush();
  return result;
}

function selectionOf(options: BulkOptions): string {
  if (options.id !== undefined) return "by id";
  return shellLine([...(options.all ? ["--all"] : []), ...selectionWords(options)]);
}

/** Where the calls are that were named and are not failed. */
async function findMissing(
  { redis }: Session,
  { id: ids = [] }: BulkOptions,
  selected: readonly Selected[],
): Promise<string[]> {
  const found = new Set(selected.map(({ id }) => id));
  return Promise.all(ids.filter((id) => !found.has(id)).map((id) => whereIs(redis, id)));
}

type Outcome = Omit<BulkReport, "resume">;

function exitCode({ result, held, missing, interrupted }: Outcome, { dryRun }: BulkOptions): number {
  if (missing.length > 0 || interrupted) return EXIT.failed;
  if (dryRun) return EXIT.ok;
  const left = held.length > 0 || result === undefined || result.remaining.length > 0;
  return left ? EXIT.failed : EXIT.ok;
}

/** What replay and discard have in common. */
export type BulkOptions = FilterOptions & {
  configDir: string;
  all?: boolean;
  dryRun?: boolean;
  concurrency: number;
  json?: boolean;
};

type BulkReport = {
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
function report(
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

/** The command that does what a bulk run left; undefined when it left nothing. `flags` are the subcommand's own. */
function resumeLine(
  options: BulkOptions,
  flags: readonly string[],
  { verb, result, interrupted }: Omit<BulkReport, "resume">,
): string | undefined {
  if (!interrupted && (result?.remaining.length ?? 0) === 0) return undefined;
  const { all, limit, json, concurrency, configDir } = options;
  const ended = result === undefined ? 0 : result.done + result.left;
  return shellLine([
    ...["postern", "failed", verb],
    ...(all ? ["--all"] : []),
    ...selectionWords(result === undefined ? options : withoutDone(options, result.remaining)),
    ...(limit === 0 ? [] : ["--limit", String(limit - ended)]),
    ...flags,
    ...(json ? ["--json"] : []),
    ...["--concurrency", String(concurrency), "--config-dir", configDir],
  ]);
}

/** Named calls that are done would only be complained of; those that a filter chose are not failed any more. */
function withoutDone(options: BulkOptions, remaining: readonly { id: string }[]): BulkOptions {
  return options.id === undefined ? options : { ...options, id: remaining.map(({ id }) => id) };
}

type ProgressBar = {
  update(progress: Progress): void;
  /** Takes the bar off the screen. */
  end(): void;
};

const BAR_CELLS = 30;
const REDRAW_MS = 100;

/** One line on a screen, drawn over itself. */
export function createProgressBar(write: (text: string) => void, clock: Clock = systemClock): ProgressBar {
  const startedAt = clock();
  let drawnAt = 0;
  return {
    update(progress) {
      const now = clock();
      const ended = progress.done + progress.left;
      if (now - drawnAt < REDRAW_MS && ended < progress.total) return;
      drawnAt = now;
      write(
        `\r\x1b[K${bar(ended / progress.total)} ${ended}/${progress.total} ${rate(ended, now - startedAt)}`,
      );
    },
    end() {
      if (drawnAt !== 0) write("\r\x1b[K");
    },
  };
}

function bar(share: number): string {
  const full = Math.floor(share * BAR_CELLS);
  return `[${"#".repeat(full)}${".".repeat(BAR_CELLS - full)}] ${Math.floor(share * 100)} %`;
}

function rate(ended: number, elapsedMs: number): string {
  return `${Math.round((ended * 1000) / Math.max(1, elapsedMs))}/s`;
}
