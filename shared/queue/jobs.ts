import type { Partition } from "../redis/partition.ts";
import { EVEN_IF_FULL, NOW, script } from "../redis/script.ts";
import { CALLBACKS_GATE, isOfCallbacks, queuesOf, receiverOfGate } from "./queue-name.ts";
import { AWAKE } from "./scripts.ts";

/** What holds for all calls of a job together, over all producers and whatever their origin. */
export type JobLimits = {
  /** Injections at once. */
  concurrency?: number | undefined;
  /** So many calls are taken in each period. */
  rate?: { max: number; periodMs: number } | undefined;
};

/** A job's gate (scripts.ts). The times are unix ms by Redis' clock. */
export type JobGate = JobLimits & {
  pausedAt: number | undefined;
  /** Who paused it, and why. */
  pausedBy: string | undefined;
  reason: string | undefined;
  /** Until when the runner has asked for a pause. */
  throttledUntil: number | undefined;
};

/** KEYS job, wake, due. ARGV ms, then the job's queues. A longer throttle stays. */
const THROTTLE = `${EVEN_IF_FULL}${NOW}
local till = math.max(now + ARGV[1], tonumber(redis.call('HGET', KEYS[1], 'throttled') or 0))
redis.call('HSET', KEYS[1], 'throttled', string.format('%.0f', till))
for i = 2, #ARGV do
  if redis.call('ZREM', KEYS[2], ARGV[i]) == 1 then redis.call('ZADD', KEYS[3], 'LT', till, ARGV[i]) end
end`;

/** KEYS job, jobs. ARGV job, now, by, reason. Answers 1 if it was not paused. */
const PAUSE = `${EVEN_IF_FULL}
if redis.call('HEXISTS', KEYS[1], 'paused') == 1 then return 0 end
redis.call('HSET', KEYS[1], 'paused', ARGV[2], 'by', ARGV[3], 'reason', ARGV[4])
redis.call('SADD', KEYS[2], ARGV[1])
return 1`;

/** Wakes the queues that are named in ARGV from this place on, if they are registered. */
const AWAKE_FROM = (place: number) => `${AWAKE}
for i = ${place}, #ARGV do
  if redis.call('SISMEMBER', KEYS[3], ARGV[i]) == 1 then awake(KEYS[4], ARGV[i]) end
end`;

/** KEYS job, jobs, registry, wake. ARGV job, then its queues. Answers 1 if it was paused. */
const RESUME = `${EVEN_IF_FULL}
if redis.call('HDEL', KEYS[1], 'paused', 'by', 'reason') == 0 then return 0 end
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('SREM', KEYS[2], ARGV[1]) end
${AWAKE_FROM(2)}
return 1`;

/**
 * KEYS job, jobs, registry, wake, taken. ARGV job, concurrency, max, duration (each empty: none), then the job's queues. A new
 * period begins at once: the calls counted so far were counted for the one before.
 */
const LIMIT = `${EVEN_IF_FULL}
if (redis.call('HGET', KEYS[1], 'duration') or '') ~= ARGV[4] then redis.call('DEL', KEYS[5]) end
for i, field in ipairs({'concurrency', 'max', 'duration'}) do
  if ARGV[i + 1] == '' then redis.call('HDEL', KEYS[1], field) else redis.call('HSET', KEYS[1], field, ARGV[i + 1]) end
end
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('SADD', KEYS[2], ARGV[1]) else redis.call('SREM', KEYS[2], ARGV[1]) end
${AWAKE_FROM(5)}`;

/** KEYS configured. */
const CONFIGURED = `${EVEN_IF_FULL}${NOW}
redis.call('SET', KEYS[1], string.format('%.0f', now))`;

/**
 * What operators, configurations and runners say of whole jobs. The scripts that take calls obey it. The same can be said of a receiver of
 * callbacks, by the name of its gate, and of all of them.
 */
export function openJobs({ redis, keys }: Partition) {
  const [throttle, pause] = [script(redis, THROTTLE), script(redis, PAUSE)];
  const [resume, limit, configured] = [
    script(redis, RESUME),
    script(redis, LIMIT),
    script(redis, CONFIGURED),
  ];
  const places = (job: string) => [keys.job(job), keys.jobs, keys.queues, keys.wake];

  /** The queues behind a gate. One that comes meanwhile is told of by its own add, or found by the next look (poll.ts). */
  async function queuesBehind(gate: string): Promise<string[]> {
    const receiver = receiverOfGate(gate);
    if (receiver !== undefined) return redis.smembers(keys.receiver(receiver));
    if (gate !== CALLBACKS_GATE) return queuesOf(gate);
    return (await redis.smembers(keys.queues)).filter(isOfCallbacks);
  }

  async function setLimits(job: string, { concurrency, rate }: JobLimits): Promise<void> {
    const limits = [concurrency ?? "", rate?.max ?? "", rate?.periodMs ?? ""];
    await limit([...places(job), keys.taken(job)], [job, ...limits, ...(await queuesBehind(job))]);
  }

  return {
    /** No producer takes calls of the job for so long. */
    async throttle(job: string, ms: number): Promise<void> {
      await throttle([keys.job(job), keys.wake, keys.due], [ms, ...(await queuesBehind(job))]);
    },

    /** No producer takes calls of the job until it is resumed. False if it is paused already. */
    async pause(
      job: string,
      { at, by, reason }: { at: number; by: string; reason: string },
    ): Promise<boolean> {
      return (await pause([keys.job(job), keys.jobs], [job, at, by, reason])) === 1;
    },

    /** False if the job was not paused. */
    async resume(job: string): Promise<boolean> {
      return (await resume(places(job), [job, ...(await queuesBehind(job))])) === 1;
    },

    /** Sets the limits of these jobs, and removes those of all others. */
    async configure(limits: ReadonlyMap<string, JobLimits>): Promise<void> {
      const known = await redis.smembers(keys.jobs);
      for (const job of new Set([...known, ...limits.keys()])) await setLimits(job, limits.get(job) ?? {});
      await configured([keys.configured], []);
    },

    /** Sets the limits of one job, or of a gate that is no job's, and leaves those of all others. */
    limit: setLimits,

    /** Whether the limits are those that were set, and not lost with Redis' data. */
    areConfigured: async () => (await redis.exists(keys.configured)) === 1,

    /** The names of the gates with a limit or a pause. */
    named: () => redis.smembers(keys.jobs),

    /** These gates, or all that have a limit or a pause. */
    async gates(names?: readonly string[]): Promise<Map<string, JobGate>> {
      const fields = ["paused", "by", "reason", "throttled", "concurrency", "max", "duration"] as const;
      const read = (names ?? (await redis.smembers(keys.jobs))).map(async (job) => {
        const [paused, by, reason, throttled, concurrency, max, duration] = await redis.hmget(
          keys.job(job),
          ...fields,
        );
        const gate: JobGate = {
          pausedAt: paused ? Number(paused) : undefined,
          pausedBy: by ?? undefined,
          reason: reason || undefined,
          throttledUntil: throttled ? Number(throttled) : undefined,
          concurrency: concurrency ? Number(concurrency) : undefined,
          rate: max && duration ? { max: Number(max), periodMs: Number(duration) } : undefined,
        };
        return [job, gate] as const;
      });
      return new Map(await Promise.all(read));
    },
  };
}
