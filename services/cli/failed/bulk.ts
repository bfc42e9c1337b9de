import type { PosternToml } from "../../../shared/config/postern-toml.ts";
import { EXIT, stopSignal } from "../../../shared/lifecycle/run-service.ts";
import { createFailedCalls } from "../../../shared/queue/failed.ts";
import {
  type ManyResult,
  type Operate,
  type OperateDeps,
  operateMany,
  type Selected,
  select,
} from "../../../shared/queue/operate.ts";
import { systemClock } from "../../../shared/time/clock.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { type Session, withRedis } from "../with-redis.ts";
import type { BulkOptions } from "./bulk-options.ts";
import { type BulkReport, report } from "./bulk-report.ts";
import { selectionWords, shellLine, toFilter } from "./filter-options.ts";
import { operatorName } from "./operator.ts";
import { createProgressBar } from "./progress.ts";
import { resumeLine } from "./resume-line.ts";
import { whereIs } from "./where-is.ts";

/** What replay and discard do differently. */
export type BulkKind = {
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
