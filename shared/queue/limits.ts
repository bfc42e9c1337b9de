import { defineScript } from "../redis/define-script.ts";
import type { Partition, Partitions } from "../redis/partition.ts";
import { nothing } from "../redis/reply.ts";
import configuredLua from "./configured.lua";
import limitJobLua from "./limit-job.lua";
import { CALLBACKS_GATE, receiverOfGate } from "./queue-name.ts";
import { queuesBehind } from "./registry.ts";
import shareLimitsLua from "./share-limits.lua";

/** What holds for all calls of a job together, over all producers and whatever their origin. */
export type JobLimits = {
  /** Injections at once. */
  concurrency?: number | undefined;
  /** So many calls are taken in each period. */
  rate?: { max: number; periodMs: number } | undefined;
};

const LIMIT = defineScript({
  source: limitJobLua,
  keys: "job, jobs, registry, wake, taken",
  args: "name, permit, concurrency, max, duration, ...queues",
  proof: "expendable",
  reply: nothing,
});

const SHARE_LIMITS = defineScript({
  source: shareLimitsLua,
  keys: "limits, taken",
  args: "concurrency, max, duration",
  proof: "expendable",
  reply: nothing,
});

const CONFIGURED = defineScript({
  source: configuredLua,
  keys: "configured",
  proof: "expendable",
  reply: nothing,
});

/**
 * The limits of jobs. Those over several partitions are in the first one, and the gates have the field `permit`. Callbacks need no permits:
 * each partition has its share of what their receivers may have.
 */
export function openLimits(partitions: Partitions) {
  const { control } = partitions;
  const count = partitions.all.length;
  const isAlone = count === 1;
  const share = SHARE_LIMITS.on(control.redis);
  const places = partitions.map((partition) => {
    return { partition, limit: LIMIT.on(partition.redis), configured: CONFIGURED.on(partition.redis) };
  });
  const indexes = partitions.all.map((_, index) => index);
  const placeAt = (index: number) => places.all[index] as typeof places.control;

  /** Sets a gate of one partition. */
  async function setIn(index: number, job: string, { concurrency, rate }: JobLimits): Promise<void> {
    const { partition, limit } = placeAt(index);
    const { keys } = partition;
    const words = { concurrency, max: rate?.max, duration: rate?.periodMs };
    const taken = keys.taken(job);
    if (index === 0 && !isAlone) await share({ limits: keys.limits(job), taken }, words);
    const { jobs, queues: registry, wake } = keys;
    const own = isAlone ? { ...words, permit: undefined } : ownOf(job, words);
    const queues = await queuesBehind(partition, job);
    await limit({ job: keys.job(job), jobs, registry, wake, taken }, { name: job, ...own, queues });
  }

  function ownOf(
    job: string,
    { concurrency, max, duration }: Words,
  ): Words & { permit: boolean | undefined } {
    if (job !== CALLBACKS_GATE && receiverOfGate(job) === undefined)
      return { permit: (concurrency ?? max) === undefined ? undefined : true, ...NO_WORDS };
    const shareOf = (limit: number | undefined) => limit && Math.max(1, Math.floor(limit / count));
    return { permit: undefined, concurrency: shareOf(concurrency), max: shareOf(max), duration };
  }

  return {
    /** Sets the limits of these jobs, and removes those of all others: in one partition, or in each. */
    async configure(limits: ReadonlyMap<string, JobLimits>, index?: number): Promise<void> {
      for (const each of index === undefined ? indexes : [index]) {
        const { partition, configured } = placeAt(each);
        const { redis, keys } = partition;
        const known = await redis.smembers(keys.jobs);
        for (const job of new Set([...known, ...limits.keys()]))
          await setIn(each, job, limits.get(job) ?? {});
        await configured({ configured: keys.configured });
      }
    },

    /** Sets the limits of one job, or of a gate that is no job's, and leaves those of all others. */
    async set(job: string, limits: JobLimits, index?: number): Promise<void> {
      for (const each of index === undefined ? indexes : [index]) await setIn(each, job, limits);
    },

    /** The limits of a job over several partitions. */
    of: async (job: string) => toLimits(await control.redis.hmget(control.keys.limits(job), ...LIMIT_FIELDS)),
  };
}

/** Whether the limits in a partition are those that were set, and not lost with Redis' data. */
export function createAreConfigured({ redis, keys }: Partition) {
  return async (): Promise<boolean> => (await redis.exists(keys.configured)) === 1;
}

export const LIMIT_FIELDS = ["concurrency", "max", "duration"] as const;

/** Limits as stored. */
export function toLimits([concurrency, max, duration]: readonly (string | null)[]): JobLimits {
  return {
    concurrency: concurrency ? Number(concurrency) : undefined,
    rate: max && duration ? { max: Number(max), periodMs: Number(duration) } : undefined,
  };
}

type Words = Record<(typeof LIMIT_FIELDS)[number], number | undefined>;

const NO_WORDS: Words = { concurrency: undefined, max: undefined, duration: undefined };
