import { AppError } from "../../platform/errors/app-error.ts";
import { failpoint } from "../../platform/lifecycle/failpoint.ts";
import type { AuditEntry } from "../../redis/audit/actions.ts";
import { AUDIT, actKeys, toLine } from "../../redis/audit/audit.ts";
import { defineScript } from "../../redis/define-script.ts";
import { toObject } from "../../redis/pages.ts";
import type { Partition } from "../../redis/partition.ts";
import { flag, list, nothing, oneOf, optional, text, tuple } from "../../redis/reply.ts";
import cancelLua from "./cancel.lua";
import createLua from "./create.lua";
import endLua from "./end.lua";
import holdLua from "./hold.lua";
import releaseLua from "./release.lua";
import resumeLua from "./resume.lua";
import { newRunId, OPEN_RUNS_MAX, RUN_KEPT_MS, RUNS_KEPT, type Run, type RunState } from "./run.ts";
import takeLua from "./take.lua";

/*
 * Redis keeps a run as a hash with these fields: kind, by, resumed_by, request, st, cancel, progress, code, reason, at
 * and ended_at. While a process works on the run, it also has the field holder. A sorted set has the ids of the runs
 * that are waiting or running. The score of a run is the time from which any process may take it. While a process
 * holds a lease on the run, this is the end of the lease.
 */

const CREATE = defineScript({
  source: createLua,
  keys: "run, runs, open, acts, repeats, actCount",
  args: "id, kind, by, request, prefix, line",
  constants: { AUDIT, OPEN_RUNS_MAX, RUNS_KEPT },
  proof: "needed",
  reply: flag,
});

const TAKE = defineScript({
  source: takeLua,
  keys: "open",
  args: "prefix, holder, leaseMs, ...kinds",
  constants: { OPEN_RUNS_MAX },
  proof: "expendable",
  reply: optional(tuple(text, list(text))),
});

const HOLD = defineScript({
  source: holdLua,
  keys: "run, open",
  args: "id, holder, leaseMs, progress",
  proof: "expendable",
  reply: oneOf(0, 1, 2),
});

const RELEASE = defineScript({
  source: releaseLua,
  keys: "run, open",
  args: "id, holder, progress",
  proof: "expendable",
  reply: nothing,
});

const END = defineScript({
  source: endLua,
  keys: "run, open",
  args: "id, holder, state, progress, code, reason",
  constants: { RUN_KEPT_MS },
  proof: "expendable",
  reply: flag,
});

const CANCEL = defineScript({
  source: cancelLua,
  keys: "run, open, acts, repeats, actCount",
  args: "id, line",
  constants: { AUDIT },
  proof: "needed",
  reply: nothing,
});

const RESUME = defineScript({
  source: resumeLua,
  keys: "run, open, acts, repeats, actCount",
  args: "id, by, line",
  constants: { AUDIT, OPEN_RUNS_MAX },
  proof: "needed",
  reply: oneOf(0, 1, 2),
});

/** Fields that a list of runs reads, besides the progress. */
const FIELDS = [
  "kind",
  "by",
  "resumed_by",
  "request",
  "st",
  "cancel",
  "code",
  "reason",
  "at",
  "ended_at",
] as const;
/** Stored fields of a run, as far as they are set. */
type Fields = { readonly [Name in (typeof FIELDS)[number] | "progress"]?: string };

type NewRun = Pick<Run, "kind" | "by" | "request">;

/** An act of an operator on a run. */
type RunAct = AuditEntry<"acts"> & { run: string };

/**
 * Answer to a process that renews its lease. `cancel`: an operator has cancelled the run, so the process must end it.
 * `lost`: another process holds the run.
 */
export type LeaseAnswer = "go on" | "cancel" | "lost";

export type RunStore = ReturnType<typeof createRunStore>;

/** The methods for the requests of operators. The other methods are for processes that carry out runs. */
export type Runs = Pick<RunStore, "create" | "find" | "list" | "cancel" | "resume">;

/** Keeps runs in Redis. Limits their number. Each change is one script. */
export function createRunStore(partition: Partition) {
  const { redis, keys, prefix } = partition;
  const [create, cancel, resume] = [CREATE.on(redis), CANCEL.on(redis), RESUME.on(redis)];
  const placesOf = placesIn(keys);

  async function find(id: string): Promise<Run | undefined> {
    const fields = await redis.hgetall(keys.run(id));
    return Object.keys(fields).length === 0 ? undefined : toRun(id, fields);
  }

  async function found(id: string): Promise<Run> {
    const run = await find(id);
    if (run !== undefined) return run;
    throw AppError.public("run.unknown", `there is no bulk operation ${id}, or it is no longer kept`);
  }

  return {
    ...createWorkerMethods(partition),

    /** Creates a run, and writes its line (`actOf`) in the audit log. A dry run has no line. Throws `run.too_many`. */
    async create({ kind, by, request }: NewRun, actOf?: (id: string) => RunAct): Promise<Run> {
      const id = newRunId();
      const act = actOf?.(id);
      const words = { id, kind, by, request: JSON.stringify(request), prefix, line: act && toLine(act) };
      const touched = { ...placesOf(id), runs: keys.runs, ...actKeys(keys, act) };
      if (!(await create(touched, words))) throw tooManyRuns();
      failpoint("console.after_begun");
      return found(id);
    },

    find,

    /** Lists the newest runs of a kind, newest first, with their progress if requested. */
    async list(
      kind: string,
      { limit = RUNS_KEPT, withProgress = true }: { limit?: number; withProgress?: boolean } = {},
    ): Promise<Run[]> {
      const ids = await redis.zrevrange(keys.runs, 0, RUNS_KEPT - 1);
      const kinds = await Promise.all(ids.map((id) => redis.hget(keys.run(id), "kind")));
      const listed = ids.filter((_, i) => kinds[i] === kind).slice(0, limit);
      const names = withProgress ? [...FIELDS, "progress"] : FIELDS;
      const all = await Promise.all(listed.map((id) => redis.hmget(keys.run(id), ...names)));
      return listed.flatMap((id, i) => {
        const found = names.flatMap((name, n) => {
          const value = all[i]?.[n] ?? undefined;
          return value === undefined ? [] : [[name, value] as const];
        });
        // A run may have been removed after its id was read.
        return found.length === 0 ? [] : [toRun(id, Object.fromEntries(found))];
      });
    },

    /** Requests the end of a run, with a line in the audit log. Does not change an ended run. Throws `run.unknown`. */
    async cancel(act: RunAct): Promise<Run> {
      const { run: id } = act;
      await found(id);
      await cancel({ ...placesOf(id), ...actKeys(keys, act) }, { id, line: toLine(act) });
      return found(id);
    },

    /**
     * Continues a cancelled or stopped run, with a line in the audit log. Throws `run.unknown`, `run.not_resumable`
     * and `run.too_many`.
     */
    async resume(act: RunAct): Promise<Run> {
      const { run: id, by } = act;
      const { state } = await found(id);
      const answer = await resume({ ...placesOf(id), ...actKeys(keys, act) }, { id, by, line: toLine(act) });
      if (answer === 0) throw tooManyRuns();
      if (answer === 2)
        throw AppError.public(
          "run.not_resumable",
          `${id} is ${state}: only a cancelled or stopped bulk operation can be resumed`,
        );
      return found(id);
    },
  };
}

function placesIn(keys: Partition["keys"]) {
  return (id: string) => ({ run: keys.run(id), open: keys.openRuns });
}

/** Creates the methods for processes that carry out runs. */
function createWorkerMethods({ redis, keys, prefix }: Partition) {
  const [take, hold, release, end] = [TAKE.on(redis), HOLD.on(redis), RELEASE.on(redis), END.on(redis)];
  const placesOf = placesIn(keys);

  return {
    /** Takes a run of one of these kinds that no process holds. */
    async take(holder: string, leaseMs: number, kinds: readonly string[]): Promise<Run | undefined> {
      const found = await take({ open: keys.openRuns }, { prefix, holder, leaseMs, kinds });
      return found && toRun(found[0], toObject(found[1]));
    },

    /** Renews the lease, and stores the progress unless it is undefined. */
    async hold(id: string, holder: string, leaseMs: number, progress: unknown): Promise<LeaseAnswer> {
      const answer = await hold(placesOf(id), { id, holder, leaseMs, progress: JSON.stringify(progress) });
      if (answer === 2) return "cancel";
      return answer === 1 ? "go on" : "lost";
    },

    async release(id: string, holder: string, progress: unknown): Promise<void> {
      await release(placesOf(id), { id, holder, progress: JSON.stringify(progress) });
    },

    /** Ends a run. Returns false if another process holds it. */
    async end(
      id: string,
      holder: string,
      { state, progress, failure }: Pick<Run, "progress" | "failure"> & { state: RunState },
    ): Promise<boolean> {
      const { code, reason } = failure ?? {};
      return end(placesOf(id), { id, holder, state, progress: JSON.stringify(progress), code, reason });
    },
  };
}

function toRun(id: string, fields: Fields): Run {
  const { kind = "", by = "", request = "null", st = "waiting", progress, code, reason = "" } = fields;
  return {
    id,
    kind,
    by,
    resumedBy: fields.resumed_by,
    state: st as RunState,
    request: JSON.parse(request),
    isCancelling: fields.cancel !== undefined,
    progress: progress === undefined ? undefined : JSON.parse(progress),
    failure: code === undefined ? undefined : { code, reason },
    at: Number(fields.at),
    endedAt: fields.ended_at === undefined ? undefined : Number(fields.ended_at),
  };
}

function tooManyRuns(): AppError {
  const detail = `${OPEN_RUNS_MAX} bulk operations are waiting or in progress: wait until one ends, or cancel one`;
  return AppError.public("run.too_many", detail, { retryAfterMs: 5000 });
}
