import { randomBytes } from "node:crypto";
import { AppError } from "../errors/app-error.ts";
import { failpoint } from "../lifecycle/failpoint.ts";
import { defineScript } from "../redis/define-script.ts";
import { toObject } from "../redis/pages.ts";
import type { Partition } from "../redis/partition.ts";
import { flag, list, nothing, oneOf, optional, text, tuple } from "../redis/reply.ts";
import { isNewer, newer } from "../redis/version.ts";
import cancelLua from "./cancel.lua";
import createLua from "./create.lua";
import endLua from "./end.lua";
import holdLua from "./hold.lua";
import releaseLua from "./release.lua";
import resumeLua from "./resume.lua";
import { OPEN_RUNS_MAX, RUN_KEPT_MS, RUNS_KEPT, type Run, type RunState } from "./run.ts";
import takeLua from "./take.lua";

/*
 * A run is a hash: v, kind, by, resumed_by, request, st, cancel, progress, code, reason, at, ended_at, and holder while somebody does it. Runs
 * that have not ended are in the zset of open ones by the time from which anybody may take them: that of the lease, if one is held.
 */

const CREATE = defineScript({
  source: createLua,
  keys: "run, runs, open",
  args: "id, kind, by, request, prefix",
  constants: { OPEN_RUNS_MAX, RUNS_KEPT },
  reply: flag,
});

const TAKE = defineScript({
  source: takeLua,
  keys: "open",
  args: "prefix, holder, leaseMs, ...kinds",
  constants: { OPEN_RUNS_MAX },
  reply: optional(tuple(text, list(text))),
});

const HOLD = defineScript({
  source: holdLua,
  keys: "run, open",
  args: "id, holder, leaseMs, progress",
  reply: oneOf(0, 1, 2),
});

const RELEASE = defineScript({
  source: releaseLua,
  keys: "run, open",
  args: "id, holder, progress",
  reply: nothing,
});

const END = defineScript({
  source: endLua,
  keys: "run, open",
  args: "id, holder, state, progress, code, reason",
  constants: { RUN_KEPT_MS },
  reply: flag,
});

const CANCEL = defineScript({ source: cancelLua, keys: "run, open", args: "id", reply: nothing });

const RESUME = defineScript({
  source: resumeLua,
  keys: "run, open",
  args: "id, by",
  constants: { OPEN_RUNS_MAX },
  reply: oneOf(0, 1, 2),
});

/** What is known of a run beside its progress, and who holds it. */
const FIELDS = ["v", "kind", "by", "request", "st", "cancel", "code", "reason", "at", "ended_at"] as const;

/** What a process holds: it may go on; it is to end the run; or somebody else has it by now. */
export type Held = "go on" | "cancel" | "lost";

export type RunStore = ReturnType<typeof createRunStore>;

/** Keeps runs in Redis: a bounded number, each change one step. */
export function createRunStore({ redis, keys, prefix }: Partition) {
  const [create, cancel, resume] = [CREATE.on(redis), CANCEL.on(redis), RESUME.on(redis)];
  const placesOf = placesIn(keys);

  async function find(id: string): Promise<Run | undefined> {
    const fields = await redis.hgetall(keys.run(id));
    return Object.keys(fields).length === 0 ? undefined : toRun(id, fields);
  }

  async function found(id: string): Promise<Run> {
    const run = await find(id);
    if (run !== undefined) return run;
    throw AppError.public("run.unknown", `there is no run ${id} (any more)`);
  }

  return {
    ...createHolding({ redis, keys, prefix }),

    /** Throws `run.too_many`. */
    async create({ kind, by, request }: Pick<Run, "kind" | "by" | "request">): Promise<Run> {
      const id = `run_${randomBytes(16).toString("hex")}`;
      const words = { id, kind, by, request: JSON.stringify(request), prefix };
      if (!(await create({ ...placesOf(id), runs: keys.runs }, words))) throw tooMany();
      failpoint("console.after_begun");
      return found(id);
    },

    find,

    /** The newest of a kind, the newest first, with what they have told if that is wanted. Those that a later release wrote are left out. */
    async list(
      kind: string,
      { limit = RUNS_KEPT, withProgress = true }: { limit?: number; withProgress?: boolean } = {},
    ): Promise<Run[]> {
      const ids = await redis.zrevrange(keys.runs, 0, RUNS_KEPT - 1);
      const heads = await Promise.all(ids.map((id) => redis.hmget(keys.run(id), "kind", "v")));
      const isListed = (head: (string | null)[] = []) => head[0] === kind && !isNewer("run", head[1]);
      const listed = ids.filter((_, i) => isListed(heads[i])).slice(0, limit);
      const names = withProgress ? [...FIELDS, "progress"] : FIELDS;
      const all = await Promise.all(listed.map((id) => redis.hmget(keys.run(id), ...names)));
      return listed.flatMap((id, i) => {
        const found = names.flatMap((name, n) => {
          const value = all[i]?.[n] ?? undefined;
          return value === undefined ? [] : [[name, value] as const];
        });
        // One may have gone meanwhile.
        return found.length === 0 ? [] : [toRun(id, Object.fromEntries(found))];
      });
    },

    /** Asks that it end. One that has ended is left as it is. Throws `run.unknown`. */
    async cancel(id: string): Promise<Run> {
      await found(id);
      await cancel(placesOf(id), { id });
      return found(id);
    },

    /** Has a cancelled or stopped run go on. Throws `run.unknown`, `run.not_resumable` and `run.too_many`. */
    async resume(id: string, by: string): Promise<Run> {
      const { state } = await found(id);
      const answer = await resume(placesOf(id), { id, by });
      if (answer === 0) throw tooMany();
      if (answer === 2)
        throw AppError.public(
          "run.not_resumable",
          `${id} is ${state}: only a cancelled or stopped run goes on`,
        );
      return found(id);
    },
  };
}

function placesIn(keys: Partition["keys"]) {
  return (id: string) => ({ run: keys.run(id), open: keys.openRuns });
}

/** For those who do the runs. */
function createHolding({ redis, keys, prefix }: Partition) {
  const [take, hold, release, end] = [TAKE.on(redis), HOLD.on(redis), RELEASE.on(redis), END.on(redis)];
  const placesOf = placesIn(keys);

  return {
    /** A run of these kinds that nobody holds. */
    async take(holder: string, leaseMs: number, kinds: readonly string[]): Promise<Run | undefined> {
      const found = await take({ open: keys.openRuns }, { prefix, holder, leaseMs, kinds });
      return found && toRun(found[0], toObject(found[1]));
    },

    /** Renews the lease, and tells how far the run is, unless that is undefined. */
    async hold(id: string, holder: string, leaseMs: number, progress: unknown): Promise<Held> {
      const answer = await hold(placesOf(id), { id, holder, leaseMs, progress: JSON.stringify(progress) });
      if (answer === 2) return "cancel";
      return answer === 1 ? "go on" : "lost";
    },

    async release(id: string, holder: string, progress: unknown): Promise<void> {
      await release(placesOf(id), { id, holder, progress: JSON.stringify(progress) });
    },

    /** False if somebody else holds it by now. */
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

function toRun(id: string, fields: Readonly<Record<string, string>>): Run {
  if (isNewer("run", fields["v"])) throw newer();
  const { kind = "", by = "", request = "null", st = "waiting", progress, code, reason = "" } = fields;
  return {
    ...{ id, kind, by, resumedBy: fields["resumed_by"], state: st as RunState },
    request: JSON.parse(request),
    isCancelling: fields["cancel"] !== undefined,
    progress: progress === undefined ? undefined : JSON.parse(progress),
    failure: code === undefined ? undefined : { code, reason },
    at: Number(fields["at"]),
    endedAt: fields["ended_at"] === undefined ? undefined : Number(fields["ended_at"]),
  };
}

function tooMany(): AppError {
  const detail = `${OPEN_RUNS_MAX} runs wait or are under way: wait for one of them, or cancel one`;
  return AppError.public("run.too_many", detail, { retryAfterMs: 5000 });
}
