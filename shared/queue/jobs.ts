import type { AuditEntry } from "../redis/audit/actions.ts";
import { AUDIT, actKeys, toLine } from "../redis/audit/audit.ts";
import { defineScript } from "../redis/define-script.ts";
import { askAll } from "../redis/merge.ts";
import type { Partition, Partitions } from "../redis/partition.ts";
import { flag, nothing } from "../redis/reply.ts";
import { type ChangeOutcome, openIntents, RESUMED } from "./intents.ts";
import { type JobLimits, LIMIT_FIELDS, openLimits, parseLimits } from "./limits.ts";
import pauseJobLua from "./pause-job.lua";
import { queuesBehind } from "./registry.ts";
import resumeJobLua from "./resume-job.lua";
import throttleJobLua from "./throttle-job.lua";

/** A job's gate (frame.lua). The times are unix ms by Redis' clock. */
export type JobGate = JobLimits & {
  pausedAt: number | undefined;
  /** Author of the pause. */
  pausedBy: string | undefined;
  reason: string | undefined;
  /** End of the throttle: the pause that the runner asked for by Retry-After. */
  throttledUntil: number | undefined;
};

/** Author, time and reason of an act on a job. */
export type GateAct = Pick<AuditEntry, "at" | "by" | "reason">;

/** Builds the line of the audit log for an operator's act on a job. */
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
  keys: "job, jobs, intents, acts, repeats, actCount",
  args: "name, now, by, reason, line",
  constants: { AUDIT },
  proof: "needed",
  reply: flag,
});

const RESUME = defineScript({
  source: resumeJobLua,
  keys: "job, jobs, intents, resumed, registry, wake, acts, repeats, actCount",
  args: "name, line, ...queues",
  constants: { AUDIT, RESUMED },
  proof: "needed",
  reply: flag,
});

/**
 * Reads and changes the gates of jobs: pauses by operators, configured limits, and throttles by runners. A gate that is
 * closed by one of these lets no call be taken (frame.lua). Each receiver of callbacks also has a gate, and one more gate is
 * common to all receivers.
 */
export function openJobs(partitions: Partitions) {
  const { control, all } = partitions;
  const { redis, keys } = control;
  const [pause, resume] = [PAUSE.on(redis), RESUME.on(redis)];
  const intents = openIntents(partitions);
  const limits = openLimits(partitions);
  const throttles = partitions.map(createThrottleIn);

  async function change(ofControl: Promise<boolean>): Promise<ChangeOutcome> {
    const changed = await ofControl;
    return { changed, unreached: await intents.spread() };
  }

  return {
    /**
     * Stops all producers from taking calls of the job for `ms`. Partitions that are away are skipped, because no call can be
     * taken from them anyway.
     */
    async throttle(job: string, ms: number): Promise<void> {
      const isReady = (index: number) => all.length === 1 || all[index]?.redis.status === "ready";
      const ready = throttles.all.filter((_, index) => isReady(index));
      const outcomes = await Promise.allSettled(ready.map((throttle) => throttle(job, ms)));
      const [failed] = outcomes.filter(({ status }) => status === "rejected");
      if (failed?.status === "rejected" && outcomes.every(({ status }) => status === "rejected"))
        throw failed.reason;
    },

    /**
     * Stops all producers from taking calls of the job until it is resumed. Writes the line of the audit log. Changes nothing
     * if the job is already paused.
     */
    pause(job: string, why: GateAct & { reason: string }): Promise<ChangeOutcome> {
      const { at: now, by, reason } = why;
      const act = gateAct("pause", job, why);
      const touched = {
        ...{ job: keys.job(job), jobs: keys.jobs, intents: keys.intents },
        ...actKeys(keys, act),
      };
      return change(pause(touched, { name: job, now, by, reason, line: toLine(act) }));
    },

    /** Resumes a paused job and writes the line of the audit log. Changes nothing if the job was not paused. */
    async resume(job: string, why: GateAct): Promise<ChangeOutcome> {
      const act = gateAct("resume", job, why);
      const { jobs, intents: ofIntents, resumed, queues: registry, wake } = keys;
      const touched = {
        ...{ job: keys.job(job), jobs, intents: ofIntents, resumed, registry, wake },
        ...actKeys(keys, act),
      };
      const queues = await queuesBehind(control, job);
      return change(resume(touched, { name: job, line: toLine(act), queues }));
    },

    /**
     * Copies the operators' pauses and endpoint states from partition 0 to another partition, including those set while one of
     * the two was away. A producer calls this before it takes calls from the partition, and then regularly.
     */
    sync: intents.sync,

    /** Counts, for each paused job, the partitions in which the pause is in effect. */
    async countPausedPartitions(paused: readonly string[], askEach = askAll): Promise<Map<string, number>> {
      const found = await askEach(partitions, (each) =>
        Promise.all(paused.map((job) => each.redis.hexists(each.keys.job(job), "paused"))),
      );
      const countOf = (i: number) => found.filter((ofPartition) => ofPartition[i] === 1).length;
      return new Map(paused.map((job, i) => [job, countOf(i)]));
    },

    limitsIn: limits.in,

    /** Returns the names of the gates with a limit or a pause. */
    gateNames: () => redis.smembers(keys.jobs),

    /** Reads these gates, or all gates with a limit or a pause. */
    async gates(names?: readonly string[]): Promise<Map<string, JobGate>> {
      const read = (names ?? (await redis.smembers(keys.jobs))).map(async (job) => {
        const [paused, by, reason, throttled, ...own] = await redis.hmget(keys.job(job), ...FIELDS);
        const gate: JobGate = {
          pausedAt: paused ? Number(paused) : undefined,
          pausedBy: by ?? undefined,
          reason: reason || undefined,
          throttledUntil: throttled ? Number(throttled) : undefined,
          ...(all.length === 1 ? parseLimits(own) : await limits.of(job)),
        };
        return [job, gate] as const;
      });
      return new Map(await Promise.all(read));
    },
  };
}

const FIELDS = ["paused", "by", "reason", "throttled", ...LIMIT_FIELDS] as const;

function createThrottleIn(partition: Partition) {
  const { redis, keys } = partition;
  const throttle = THROTTLE.on(redis);
  const { wake, due } = keys;
  return async (job: string, ms: number): Promise<void> => {
    await throttle({ job: keys.job(job), wake, due }, { ms, queues: await queuesBehind(partition, job) });
  };
}
