import type { PosternToml } from "../../../shared/config/postern-toml.ts";
import { stopSignal } from "../../../shared/lifecycle/run-service.ts";
import { toCallFilter, whereIs } from "../../../shared/operator/failed.ts";
import { createFailedCalls, type FailedCall } from "../../../shared/queue/failed.ts";
import {
  type ManyResult,
  type Operate,
  type OperateDeps,
  operateMany,
  select,
} from "../../../shared/queue/operate.ts";
import { shellQuote } from "../../../shared/text/shell-quote.ts";
import { systemClock } from "../../../shared/time/clock.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { operatorName } from "../terminal.ts";
import { withRedis } from "../with-redis.ts";
import { type FilterOptions, filterWords, toFilter } from "./filter.ts";
import { createProgress } from "./progress.ts";
import { type Counted, exitCode, type Outcome, PAST, report } from "./report.ts";

/** The options that replay and discard have in common. */
export type BulkOptions = FilterOptions & {
  configDir: string;
  all?: boolean;
  dryRun?: boolean;
  concurrency: number;
  json?: boolean;
  quiet?: boolean;
};

/** How replay and discard differ. */
type BulkKind = {
  verb: "replay" | "discard";
  create: (deps: OperateDeps) => Operate;
  reason?: string;
  /** The subcommand's own options, as words of the command that resumes an interrupted run. */
  flags: readonly string[];
  /** Whether this run leaves the call out, because it was given without --force. */
  needsForce: (call: FailedCall, postern: PosternToml, now: number) => boolean;
  isConfirmed: (count: number) => Promise<boolean>;
};

/**
 * Counts the calls first, then replays or discards them as it reads them once more; a million of them need no more memory than
 * a few. Unless --until says otherwise, it chooses only calls that failed before the start, and the second time only those
 * that had failed the first time: a call that fails again during the run is not taken twice. The command that resumes an
 * interrupted run names the same start.
 */
export function runBulk(deps: ProgramDeps, given: BulkOptions, kind: BulkKind): Promise<number> {
  const { verb, create, reason, flags, isConfirmed } = kind;
  const startedAt = systemClock();
  const options = given.id === undefined ? { ...given, until: given.until ?? startedAt } : given;
  const { id: ids = [], dryRun = false, concurrency } = options;
  const stop = new AbortController();
  void stopSignal().then(() => stop.abort());
  const { signal } = stop;

  return withRedis(deps, options, async ({ partition, postern, log }) => {
    const limit = options.limit === 0 ? Number.POSITIVE_INFINITY : options.limit;
    const calls = createFailedCalls(partition);
    const { ids: named, ...chosenBy } = toFilter(options);
    const filter = { ...toCallFilter(chosenBy), ids: named };
    const needsForce = (call: FailedCall) => kind.needsForce(call, postern, startedAt);
    const counted = await count(select(calls, filter, { limit, signal }), needsForce, ids);
    const absent = signal.aborted ? [] : ids.filter((id) => !counted.found.has(id));
    const missing = await Promise.all(absent.map((id) => whereIs(partition, id)));

    const operateAll = async (): Promise<ManyResult> => {
      const shown = createProgress(deps, { ...options, past: PAST[verb] });
      const operate = create({ partition, log, clock: systemClock, by: operatorName() });
      const again = select(calls, { ...filter, until: counted.newest }, { limit, signal });
      const result = await operateMany(without(again, needsForce), {
        total: counted.chosen,
        operate: async (call, why) => {
          const operated = await operate(call, why);
          counted.unfinished.delete(call.id);
          return operated;
        },
        why: { selection: selectionOf(options), reason },
        concurrency,
        signal,
        onProgress: (progress) => shown.update(progress),
      });
      shown.end();
      return result;
    };
    const { chosen } = counted;
    const begins = !dryRun && !signal.aborted && (chosen === 0 || (await isConfirmed(chosen)));
    const result = begins ? await operateAll() : undefined;

    const outcome = { verb, counted, missing, result, interrupted: signal.aborted };
    report(deps, options, outcome, resumeLine(options, flags, outcome));
    return exitCode(outcome, dryRun);
  });
}

/** How many of the calls that need --force are named. */
const NAMED_MAX = 1000;

/** The calls of a run are read twice, and only this much is kept of them. Of named calls it also keeps the ids. */
async function count(
  selected: AsyncIterable<FailedCall>,
  needsForce: (call: FailedCall) => boolean,
  ids: readonly string[],
): Promise<Counted> {
  const counted: Counted = {
    ...{ matched: 0, chosen: 0, newest: 0, byCode: {}, needForce: [] },
    ...{ found: new Set(), unfinished: new Set() },
  };
  const { byCode, needForce, found, unfinished } = counted;
  const named = ids.length > 0;
  for await (const call of selected) {
    const { id, failedAt, code } = call;
    counted.matched += 1;
    counted.newest = Math.max(counted.newest, failedAt);
    byCode[code] = (byCode[code] ?? 0) + 1;
    if (named) found.add(id);
    if (!needsForce(call)) {
      counted.chosen += 1;
      if (named) unfinished.add(id);
    } else if (needForce.length < NAMED_MAX) needForce.push(id);
  }
  return counted;
}

async function* without<Item>(items: AsyncIterable<Item>, isLeftOut: (item: Item) => boolean) {
  for await (const item of items) if (!isLeftOut(item)) yield item;
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
  { verb, counted, result, interrupted }: Outcome,
): string | undefined {
  if (!interrupted && (result?.remaining ?? 0) === 0) return undefined;
  const { all, limit, json, quiet, concurrency, configDir } = options;
  const ended = result === undefined ? 0 : result.done + result.left;
  // A filter no longer finds the calls that are done, but a name would be reported as missing.
  const rest =
    result === undefined || options.id === undefined ? options : { ...options, id: [...counted.unfinished] };
  return shellLine([
    ...["postern", "failed", verb],
    ...(all ? ["--all"] : []),
    ...filterWords(rest),
    ...(limit === 0 ? [] : ["--limit", String(limit - ended)]),
    ...flags,
    ...(json ? ["--json"] : []),
    ...(quiet ? ["--quiet"] : []),
    ...["--concurrency", String(concurrency), "--config-dir", configDir],
  ]);
}

/** Writes words as a line that a shell reads as these words. */
export function shellLine(words: readonly string[]): string {
  return words.map(shellQuote).join(" ");
}
