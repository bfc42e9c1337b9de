import { defineScript } from "../redis/define-script.ts";
import { type Partition, type Partitions, shareOf } from "../redis/partition.ts";
import { nothing } from "../redis/reply.ts";
import configuredLua from "./configured.lua";
import limitJobLua from "./limit-job.lua";
import { CALLBACKS_GATE, receiverOfGate } from "./queue-name.ts";
import { queuesBehind } from "./registry.ts";
import shareLimitsLua from "./share-limits.lua";

/** Limits on all calls of a job together, across producers and origins. */
export type JobLimits = {
  /** Maximum number of injections in flight. */
  concurrency?: number | undefined;
  /** Maximum number of calls that producers take in each period. */
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
 * Reads and sets the limits of jobs. With one partition, the gate of a job has its limits (frame.lua). With several, a job's
 * limits apply to all partitions together, and only partition 0 has them. The job's gate in each partition then has the field
 * `permit` instead. It says that a worker must get a permit from partition 0 before it takes a call
 * (services/producer/consumer/permits.ts). Callbacks need no permits: each partition gets an equal share of a receiver's
 * limits, and applies it alone.
 */
export function openLimits(partitions: Partitions) {
  const { control } = partitions;
  return {
    /** The functions that set limits, one object for each partition. */
    in: partitions.map((partition) => createLimitsIn(partition, control)),

    /** Reads a job's limits from partition 0, which has them if there are several partitions. */
    of: async (job: string) =>
      parseLimits(await control.redis.hmget(control.keys.limits(job), ...LIMIT_FIELDS)),
  };
}

/** Creates the functions that set the limits of jobs in one partition. A producer calls them before it takes calls there. */
function createLimitsIn(partition: Partition, control: Partition) {
  const { redis, keys, count } = partition;
  const share = SHARE_LIMITS.on(control.redis);
  const limit = LIMIT.on(redis);
  const configured = CONFIGURED.on(redis);

  async function set(job: string, { concurrency, rate }: JobLimits): Promise<void> {
    const words = { concurrency, max: rate?.max, duration: rate?.periodMs };
    // Writes the limits to partition 0 before the gate gets the field `permit`. In the opposite order, workers could ask
    // partition 0 for permits while it has no limits yet, and it would permit every call.
    if (count > 1) await share({ limits: control.keys.limits(job), taken: control.keys.taken(job) }, words);
    const { jobs, queues: registry, wake } = keys;
    const queues = await queuesBehind(partition, job);
    const touched = { job: keys.job(job), jobs, registry, wake, taken: keys.taken(job) };
    await limit(touched, { name: job, ...gateArgs(job, words, count), queues });
  }

  return {
    set,

    /** Sets the limits of these jobs, and removes the limits of all others. */
    async configure(limits: ReadonlyMap<string, JobLimits>): Promise<void> {
      const known = await redis.smembers(keys.jobs);
      for (const job of new Set([...known, ...limits.keys()])) await set(job, limits.get(job) ?? {});
      await configured({ configured: keys.configured });
    },
  };
}

/**
 * Returns the fields to write into a gate if there are `count` partitions. With several, a job's gate gets only `permit`, and
 * a receiver's gate gets one partition's share of the limits.
 */
function gateArgs(job: string, { concurrency, max, duration }: Words, count: number) {
  if (count === 1) return { permit: undefined, concurrency, max, duration };
  if (job !== CALLBACKS_GATE && receiverOfGate(job) === undefined)
    return { permit: (concurrency ?? max) === undefined ? undefined : true, ...NO_WORDS };
  const own = (of: number | undefined) => of && shareOf(of, count);
  return { permit: undefined, concurrency: own(concurrency), max: own(max), duration };
}

/**
 * Returns whether a producer has written its configured limits to the partition. They are missing after Redis has lost its
 * data.
 */
export function createAreConfigured({ redis, keys }: Partition) {
  return async (): Promise<boolean> => (await redis.exists(keys.configured)) === 1;
}

export const LIMIT_FIELDS = ["concurrency", "max", "duration"] as const;

/** Parses stored limits. */
export function parseLimits([concurrency, max, duration]: readonly (string | null)[]): JobLimits {
  return {
    concurrency: concurrency ? Number(concurrency) : undefined,
    rate: max && duration ? { max: Number(max), periodMs: Number(duration) } : undefined,
  };
}

type Words = Record<(typeof LIMIT_FIELDS)[number], number | undefined>;

const NO_WORDS: Words = { concurrency: undefined, max: undefined, duration: undefined };
