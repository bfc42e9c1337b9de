import { type Job, type JobType, Queue } from "bullmq";
import type { JobCall } from "../../shared/call/job-call.ts";
import { JOB_NAME, JOB_OPTIONS } from "../../shared/queue/protocol.ts";
import { queueOf } from "../../shared/queue/queue-name.ts";
import type { Redis } from "../../shared/redis/connect.ts";
import type { Partition } from "../../shared/redis/partition.ts";
import { partitionsOver } from "./partitions.ts";

/**
 * Counts all queues in one step. When a call ends, its callback appears in another queue. Separate counts could miss
 * both.
 */
const COUNT = `
local total = 0
for _, queue in ipairs(redis.call("SMEMBERS", KEYS[1])) do
  for _, state in ipairs(ARGV) do
    local key = KEYS[2] .. ":" .. queue .. ":" .. state
    local isList = redis.call("TYPE", key).ok == "list"
    total = total + redis.call(isList and "LLEN" or "ZCARD", key)
  end
end
return total`;

export type TestQueues = ReturnType<typeof openQueues>;

/** Reads the queues of all partitions with BullMQ's own Queue, as other tools for BullMQ would. */
export function openQueues(redis: Redis, partitions = partitionsOver(redis)) {
  const open = new Map<string, Queue<JobCall>>();

  function of(name: string, { prefix }: Pick<Partition, "prefix"> = partitions.control): Queue<JobCall> {
    const known = open.get(prefix + name);
    if (known !== undefined) return known;
    const queue = new Queue<JobCall>(name, {
      ...{ prefix, connection: redis },
      ...{ skipVersionCheck: true, skipWaitingForReady: true, skipMetasUpdate: true },
    });
    queue.on("error", () => {});
    open.set(prefix + name, queue);
    return queue;
  }

  const inEach = <Found>(read: (partition: Partition) => Promise<Found>) =>
    Promise.all(partitions.all.map(read));
  const all = async () => {
    const found = inEach(async (partition) => {
      return (await redis.smembers(partition.keys.queues)).map((name) => of(name, partition));
    });
    return (await found).flat();
  };

  return {
    of,

    /** Returns the number of calls in these BullMQ states. */
    async countIn(...states: ("wait" | "active" | "delayed" | "failed" | "completed")[]): Promise<number> {
      const counts = await inEach(({ keys, prefix }) => redis.eval(COUNT, 2, keys.queues, prefix, ...states));
      return counts.reduce((sum: number, count) => sum + Number(count), 0);
    },

    /** Returns the calls in this state, the oldest of each queue first. */
    async jobs(state: JobType, isWanted = (_queue: string) => true): Promise<Job<JobCall>[]> {
      const wanted = (await all()).filter(({ name }) => isWanted(name));
      return (await Promise.all(wanted.map((queue) => queue.getJobs([state], 0, -1, true)))).flat();
    },

    async find(id: string): Promise<Job<JobCall> | undefined> {
      const found = await Promise.all((await all()).map((queue) => queue.getJob(id)));
      return found.find((job) => job !== undefined);
    },

    async remove(id: string): Promise<void> {
      await Promise.all((await all()).map((queue) => queue.remove(id)));
    },

    /** Removes all calls. */
    async clear(): Promise<void> {
      await Promise.all((await all()).map((queue) => queue.obliterate({ force: true })));
    },

    /** Adds stored data, valid or not, to the queue of this call. */
    async addStored(call: JobCall, stored: unknown): Promise<void> {
      const name = queueOf(call);
      const partition = partitions.of(call.id);
      await redis.sadd(partition.keys.queues, name);
      await of(name, partition).add(JOB_NAME, stored as JobCall, { ...JOB_OPTIONS, jobId: call.id });
    },

    async close(): Promise<void> {
      await Promise.all([...open.values()].map((queue) => queue.close()));
    },
  };
}
