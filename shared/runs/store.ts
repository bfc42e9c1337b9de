import { randomBytes } from "node:crypto";
import { AppError } from "../errors/app-error.ts";
import { failpoint } from "../lifecycle/failpoint.ts";
import { toObject } from "../redis/pages.ts";
import type { Partition } from "../redis/partition.ts";
import { EVEN_IF_FULL, NOW, script } from "../redis/script.ts";
import { isNewer, newer, unlessNewer, VERSIONS } from "../redis/version.ts";
import { OPEN_RUNS_MAX, RUN_KEPT_MS, RUNS_KEPT, type Run, type RunState } from "./run.ts";

/*
 * A run is a hash: v, kind, by, resumed_by, request, st, cancel, progress, code, reason, at, ended_at, and holder while somebody does it. Runs
 * that have not ended are in the zset of open ones by the time from which anybody may take them: that of the lease, if one is held.
 */

/** KEYS run, runs, open. ARGV id, kind, by, request, prefix. Answers 1, or 0 if too many are open. */
const CREATE = `${NOW}
if redis.call('ZCARD', KEYS[3]) >= ${OPEN_RUNS_MAX} then return 0 end
redis.call('HSET', KEYS[1], 'v', ${VERSIONS.run}, 'kind', ARGV[2], 'by', ARGV[3], 'request', ARGV[4], 'st', 'waiting',
  'at', string.format('%.0f', now))
redis.call('ZADD', KEYS[2], now, ARGV[1])
redis.call('ZADD', KEYS[3], now, ARGV[1])
local over = redis.call('ZCARD', KEYS[2]) - ${RUNS_KEPT}
for _, id in ipairs(over > 0 and redis.call('ZRANGE', KEYS[2], 0, over + ${OPEN_RUNS_MAX}) or {}) do
  if over > 0 and not redis.call('ZSCORE', KEYS[3], id) then
    redis.call('ZREM', KEYS[2], id)
    redis.call('DEL', ARGV[5] .. ':run:' .. id)
    over = over - 1
  end
end
return 1`;

/**
 * KEYS open. ARGV prefix, holder, ms of the lease, then the kinds that are known here. Answers the id and the fields of a run that now is the
 * holder's; nothing if none is to be taken. One that a later release wrote, or of another kind, is left to others.
 */
const TAKE = `${EVEN_IF_FULL}${NOW}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ${OPEN_RUNS_MAX})) do
  local key = ARGV[1] .. ':run:' .. id
  local v, kind = unpack(redis.call('HMGET', key, 'v', 'kind'))
  if not v then redis.call('ZREM', KEYS[1], id) end
  local isKnown = false
  for i = 4, #ARGV do isKnown = isKnown or ARGV[i] == kind end
  if v and isKnown and tonumber(v) <= ${VERSIONS.run} then
    redis.call('HSET', key, 'st', 'running', 'holder', ARGV[2])
    redis.call('ZADD', KEYS[1], now + ARGV[3], id)
    return {id, redis.call('HGETALL', key)}
  end
end`;

/** KEYS run, open. ARGV id, holder, ms of the lease, progress or nothing. Answers 0 if it is not the holder's, 2 if it is to end, else 1. */
const HOLD = `${EVEN_IF_FULL}${unlessNewer("run")}${NOW}
if redis.call('HGET', KEYS[1], 'holder') ~= ARGV[2] then return 0 end
if ARGV[4] ~= '' then redis.call('HSET', KEYS[1], 'progress', ARGV[4]) end
redis.call('ZADD', KEYS[2], now + ARGV[3], ARGV[1])
return redis.call('HEXISTS', KEYS[1], 'cancel') == 1 and 2 or 1`;

/** KEYS run, open. ARGV id, holder, progress or nothing. The run waits again, for anybody. */
const RELEASE = `${EVEN_IF_FULL}${unlessNewer("run")}${NOW}
if redis.call('HGET', KEYS[1], 'holder') ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], 'holder')
redis.call('HSET', KEYS[1], 'st', 'waiting')
if ARGV[3] ~= '' then redis.call('HSET', KEYS[1], 'progress', ARGV[3]) end
redis.call('ZADD', KEYS[2], now, ARGV[1])
return 1`;

/** KEYS run, open. ARGV id, holder, state, progress or nothing, code, reason (empty: none). Answers 0 if it is not the holder's. */
const END = `${EVEN_IF_FULL}${unlessNewer("run")}${NOW}
if redis.call('HGET', KEYS[1], 'holder') ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], 'holder', 'cancel', 'code', 'reason')
redis.call('HSET', KEYS[1], 'st', ARGV[3], 'ended_at', string.format('%.0f', now))
if ARGV[4] ~= '' then redis.call('HSET', KEYS[1], 'progress', ARGV[4]) end
if ARGV[5] ~= '' then redis.call('HSET', KEYS[1], 'code', ARGV[5], 'reason', ARGV[6]) end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ${RUN_KEPT_MS})
return 1`;

/** KEYS run, open. ARGV id. One that nobody holds may be taken at once, to be ended by whoever takes it. */
const CANCEL = `${EVEN_IF_FULL}${unlessNewer("run")}${NOW}
local st, holder = unpack(redis.call('HMGET', KEYS[1], 'st', 'holder'))
if st ~= 'waiting' and st ~= 'running' then return end
redis.call('HSET', KEYS[1], 'cancel', 1)
if not holder then redis.call('ZADD', KEYS[2], now, ARGV[1]) end`;

/** KEYS run, open. ARGV id, by. Answers 1; 0 if too many are open; 2 if it is neither cancelled nor stopped. */
const RESUME = `${unlessNewer("run")}${NOW}
local st = redis.call('HGET', KEYS[1], 'st')
if st ~= 'cancelled' and st ~= 'stopped' then return 2 end
if redis.call('ZCARD', KEYS[2]) >= ${OPEN_RUNS_MAX} then return 0 end
redis.call('HDEL', KEYS[1], 'cancel', 'code', 'reason', 'ended_at')
redis.call('HSET', KEYS[1], 'st', 'waiting', 'resumed_by', ARGV[2])
redis.call('PERSIST', KEYS[1])
redis.call('ZADD', KEYS[2], now, ARGV[1])
return 1`;

/** What is known of a run beside its progress, and who holds it. */
const FIELDS = ["v", "kind", "by", "request", "st", "cancel", "code", "reason", "at", "ended_at"] as const;

/** What a process holds: it may go on; it is to end the run; or somebody else has it by now. */
export type Held = "go on" | "cancel" | "lost";

export type RunStore = ReturnType<typeof createRunStore>;

/** Keeps runs in Redis: a bounded number, each change one step. */
export function createRunStore({ redis, keys, prefix }: Partition) {
  const [create, cancel, resume] = [script(redis, CREATE), script(redis, CANCEL), script(redis, RESUME)];

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
      const args = [id, kind, by, JSON.stringify(request), prefix];
      const isMade = await create([keys.run(id), keys.runs, keys.openRuns], args);
      if (isMade !== 1) throw tooMany();
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
      await cancel([keys.run(id), keys.openRuns], [id]);
      return found(id);
    },

    /** Has a cancelled or stopped run go on. Throws `run.unknown`, `run.not_resumable` and `run.too_many`. */
    async resume(id: string, by: string): Promise<Run> {
      const { state } = await found(id);
      const answer = await resume([keys.run(id), keys.openRuns], [id, by]);
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

/** For those who do the runs. */
function createHolding({ redis, keys, prefix }: Partition) {
  const [take, hold] = [script(redis, TAKE), script(redis, HOLD)];
  const [release, end] = [script(redis, RELEASE), script(redis, END)];
  const placesOf = (id: string) => [keys.run(id), keys.openRuns];
  const textOf = (progress: unknown) => (progress === undefined ? "" : JSON.stringify(progress));

  return {
    /** A run of these kinds that nobody holds. */
    async take(holder: string, leaseMs: number, kinds: readonly string[]): Promise<Run | undefined> {
      const reply = (await take([keys.openRuns], [prefix, holder, leaseMs, ...kinds])) as
        | [id: string, fields: string[]]
        | null;
      return reply === null ? undefined : toRun(reply[0], toObject(reply[1]));
    },

    /** Renews the lease, and tells how far the run is, unless that is undefined. */
    async hold(id: string, holder: string, leaseMs: number, progress: unknown): Promise<Held> {
      const answer = await hold(placesOf(id), [id, holder, leaseMs, textOf(progress)]);
      if (answer === 2) return "cancel";
      return answer === 1 ? "go on" : "lost";
    },

    async release(id: string, holder: string, progress: unknown): Promise<void> {
      await release(placesOf(id), [id, holder, textOf(progress)]);
    },

    /** False if somebody else holds it by now. */
    async end(
      id: string,
      holder: string,
      { state, progress, failure }: Pick<Run, "progress" | "failure"> & { state: RunState },
    ): Promise<boolean> {
      const why = [failure?.code ?? "", failure?.reason ?? ""];
      return (await end(placesOf(id), [id, holder, state, textOf(progress), ...why])) === 1;
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
