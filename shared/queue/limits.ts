import { defineScript } from "../redis/define-script.ts";
import { type Partition, type Partitions, shareOf } from "../redis/partition.ts";
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
 * The limits of jobs. Those over several partitions are in partition 0, and the gates have the field `permit`. Callbacks need no permits:
 * each partition has its share of what their receivers may have.
 */
export function openLimits(partitions: Partitions) {
  const { control } = partitions;
  return {
    /** Sets the limits in each partition. */
    in: partitions.map((partition) => createLimitsIn(partition, control)),

    /** The limits of a job over several partitions. */
    of: async (job: string) =>
      parseLimits(await control.redis.hmget(control.keys.limits(job), ...LIMIT_FIELDS)),
  };
}

/** Sets the limits of jobs in one partition, as a producer does before it takes calls there. */
function createLimitsIn(partition: Partition, control: Partition) {
  const { redis, keys, count } = partition;
  const share = SHARE_LIMITS.on(control.redis);
  const limit = LIMIT.on(redis);
  const configured = CONFIGURED.on(redis);

  async function set(job: string, { concurrency, rate }: JobLimits): Promise<void> {
    const words = { concurrency, max: rate?.max, duration: rate?.periodMs };
    // Before a gate asks for permits: partition 0 permits every call of a job whose limits it does not know.
    if (count > 1) await share({ limits: control.keys.limits(job), taken: control.keys.taken(job) }, words);
    const { jobs, queues: registry, wake } = keys;
    const queues = await queuesBehind(partition, job);
    const touched = { job: keys.job(job), jobs, registry, wake, taken: keys.taken(job) };
    await limit(touched, { name: job, ...ofGate(job, words, count), queues });
  }

  return {
    set,

    /** Sets the limits of these jobs, and removes those of all others. */
    async configure(limits: ReadonlyMap<string, JobLimits>): Promise<void> {
      const known = await redis.smembers(keys.jobs);
      for (const job of new Set([...known, ...limits.keys()])) await set(job, limits.get(job) ?? {});
      await configured({ configured: keys.configured });
    },
  };
}

/** The words of a gate of one of so many partitions. */
function ofGate(job: string, { concurrency, max, duration }: Words, count: number) {
  if (count === 1) return { permit: undefined, concurrency, max, duration };
  if (job !== CALLBACKS_GATE && receiverOfGate(job) === undefined)
    return { permit: (concurrency ?? max) === undefined ? undefined : true, ...NO_WORDS };
  const own = (of: number | undefined) => of && shareOf(of, count);
  return { permit: undefined, concurrency: own(concurrency), max: own(max), duration };
}

/** Whether the limits in a partition are those that were set, and not lost with Redis' data. */
export function createAreConfigured({ redis, keys }: Partition) {
  return async (): Promise<boolean> => (await redis.exists(keys.configured)) === 1;
}

export const LIMIT_FIELDS = ["concurrency", "max", "duration"] as const;

/** Parses limits as they are stored. */
export function parseLimits([concurrency, max, duration]: readonly (string | null)[]): JobLimits {
  return {
    concurrency: concurrency ? Number(concurrency) : undefined,
    rate: max && duration ? { max: Number(max), periodMs: Number(duration) } : undefined,
  };
}

type Words = Record<(typeof LIMIT_FIELDS)[number], number | undefined>;

const NO_WORDS: Words = { concurrency: undefined, max: undefined, duration: undefined };
