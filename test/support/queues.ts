import { type Job, type JobType, Queue } from "bullmq";
import type { JobCall } from "../../shared/call/job-call.ts";
import { JOB_NAME, JOB_OPTIONS } from "../../shared/queue/protocol.ts";
import { queueOf } from "../../shared/queue/queue-name.ts";
import type { Redis } from "../../shared/redis/connect.ts";
import { keysOf, PREFIX } from "../../shared/redis/keys.ts";

/**
 * In one step: a call and its callback are in two queues, and a call that moves while they are counted one after the
 * other is in none of them.
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

/** Looks at the queues of the registry with BullMQ's own Queue, as other tools for BullMQ would. */
export function openQueues(redis: Redis) {
  const { queues } = keysOf(PREFIX);
  const open = new Map<string, Queue<JobCall>>();

  function of(name: string): Queue<JobCall> {
    const known = open.get(name);
    if (known !== undefined) return known;
    const queue = new Queue<JobCall>(name, {
      ...{ prefix: PREFIX, connection: redis },
      ...{ skipVersionCheck: true, skipWaitingForReady: true, skipMetasUpdate: true },
    });
    queue.on("error", () => {});
    open.set(name, queue);
    return queue;
  }

  const all = async () => (await redis.smembers(queues)).map(of);

  return {
    of,

    /** How many calls are in one of these of BullMQ's states. */
    async countIn(...states: ("wait" | "active" | "delayed" | "failed" | "completed")[]): Promise<number> {
      return Number(await redis.eval(COUNT, 2, queues, PREFIX, ...states));
    },

    /** The calls in this state, the oldest of each queue first. */
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

    /** Adds what is stored, whatever it is, to the queue of this call. */
    async addStored(call: JobCall, stored: unknown): Promise<void> {
      const name = queueOf(call);
      await redis.sadd(queues, name);
      await of(name).add(JOB_NAME, stored as JobCall, { ...JOB_OPTIONS, jobId: call.id });
    },

    async close(): Promise<void> {
      await Promise.all([...open.values()].map((queue) => queue.close()));
    },
  };
}
