import type { AuditEntry } from "../redis/audit/actions.ts";
import { AUDIT, actKeys, toLine } from "../redis/audit/audit.ts";
import { defineScript } from "../redis/define-script.ts";
import type { Partition } from "../redis/partition.ts";
import { flag, nothing } from "../redis/reply.ts";
import configuredLua from "./configured.lua";
import limitJobLua from "./limit-job.lua";
import pauseJobLua from "./pause-job.lua";
import { CALLBACKS_GATE, isOfCallbacks, queuesOf, receiverOfGate } from "./queue-name.ts";
import resumeJobLua from "./resume-job.lua";
import throttleJobLua from "./throttle-job.lua";

/** What holds for all calls of a job together, over all producers and whatever their origin. */
export type JobLimits = {
  /** Injections at once. */
  concurrency?: number | undefined;
  /** So many calls are taken in each period. */
  rate?: { max: number; periodMs: number } | undefined;
};

/** A job's gate (frame.lua). The times are unix ms by Redis' clock. */
export type JobGate = JobLimits & {
  pausedAt: number | undefined;
  /** Who paused it, and why. */
  pausedBy: string | undefined;
  reason: string | undefined;
  /** Until when the runner has asked for a pause. */
  throttledUntil: number | undefined;
};

/** Who does something to a job, when and why. */
export type GateAct = Pick<AuditEntry, "at" | "by" | "reason">;

/** The line in the audit of what an operator does to a job. */
export function gateAct(
  action: "pause" | "resume" | "run_delayed",
  job: string,
  { at, by, reason }: GateAct,
) {
  return { at, action, job, by, selection: "by name", reason };
}

const THROTTLE = defineScript({
  source: throttleJobLua,
  keys: "job, wake, due",
  args: "ms, ...queues",
  proof: "expendable",
  reply: nothing,
});

const PAUSE = defineScript({
  source: pauseJobLua,
  keys: "job, jobs, acts, repeats, actCount",
  args: "name, now, by, reason, line",
  constants: { AUDIT },
  proof: "needed",
  reply: flag,
});

/** Limits of what is known of pauses and holds that have ended: the jobs, and the time since the newest. */
export const RESUMED = { max: 1000, keptMs: 7 * 86_400_000 };

const RESUME = defineScript({
  source: resumeJobLua,
  keys: "job, jobs, resumed, registry, wake, acts, repeats, actCount",
  args: "name, line, ...queues",
  constants: { AUDIT, RESUMED },
  proof: "needed",
  reply: flag,
});

const LIMIT = defineScript({
  source: limitJobLua,
  keys: "job, jobs, registry, wake, taken",
  args: "name, concurrency, max, duration, ...queues",
  proof: "expendable",
  reply: nothing,
});

const CONFIGURED = defineScript({
  source: configuredLua,
  keys: "configured",
  proof: "expendable",
  reply: nothing,
});

/** The queues behind a gate. One that comes meanwhile is told of by its own add, or found by the next look (poll.ts). */
export async function queuesBehind({ redis, keys }: Partition, gate: string): Promise<string[]> {
  const receiver = receiverOfGate(gate);
  if (receiver !== undefined) return redis.smembers(keys.receiver(receiver));
  if (gate !== CALLBACKS_GATE) return queuesOf(gate);
  return (await redis.smembers(keys.queues)).filter(isOfCallbacks);
}

/**
 * What operators, configurations and runners say of whole jobs. The scripts that take calls obey it. The same can be said of a receiver of
 * callbacks, by the name of its gate, and of all of them.
 */
export function openJobs(partition: Partition) {
  const { redis, keys } = partition;
  const [throttle, pause, resume] = [THROTTLE.on(redis), PAUSE.on(redis), RESUME.on(redis)];
  const [limit, configured] = [LIMIT.on(redis), CONFIGURED.on(redis)];
  const { jobs, resumed, queues: registry, wake, due } = keys;

  async function setLimits(job: string, { concurrency, rate }: JobLimits): Promise<void> {
    const limits = { concurrency, max: rate?.max, duration: rate?.periodMs };
    const touched = { job: keys.job(job), jobs, registry, wake, taken: keys.taken(job) };
    await limit(touched, { name: job, ...limits, queues: await queuesBehind(partition, job) });
  }

  return {
    /** No producer takes calls of the job for so long. */
    async throttle(job: string, ms: number): Promise<void> {
      await throttle({ job: keys.job(job), wake, due }, { ms, queues: await queuesBehind(partition, job) });
    },

    /** No producer takes calls of the job until it is resumed. With its line in the audit; false if it is paused already. */
    async pause(job: string, why: GateAct & { reason: string }): Promise<boolean> {
      const { at: now, by, reason } = why;
      const act = gateAct("pause", job, why);
      const touched = { job: keys.job(job), jobs, ...actKeys(keys, act) };
      return pause(touched, { name: job, now, by, reason, line: toLine(act) });
    },

    /** With its line in the audit; false if the job was not paused. */
    async resume(job: string, why: GateAct): Promise<boolean> {
      const act = gateAct("resume", job, why);
      const touched = { job: keys.job(job), jobs, resumed, registry, wake, ...actKeys(keys, act) };
      return resume(touched, { name: job, line: toLine(act), queues: await queuesBehind(partition, job) });
    },

    /** Sets the limits of these jobs, and removes those of all others. */
    async configure(limits: ReadonlyMap<string, JobLimits>): Promise<void> {
      const known = await redis.smembers(keys.jobs);
      for (const job of new Set([...known, ...limits.keys()])) await setLimits(job, limits.get(job) ?? {});
      await configured({ configured: keys.configured });
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
