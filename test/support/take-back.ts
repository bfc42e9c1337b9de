import { eventually } from "../../shared/dev/wait.ts";
import { openBackends } from "../../shared/queue/backend.ts";
import type { Partition } from "../../shared/redis/partition.ts";
import { partitionsOver } from "./partitions.ts";
import { RESULT_LIMITS } from "./results.ts";

/**
 * Takes a call from its worker, as if the worker had been stopped for longer than its lock. The worker may renew the
 * lock between the steps. Then they are repeated, unless a worker has already taken the call again.
 */
export async function takeBack(
  { redis }: Pick<Partition, "redis">,
  { id, queue }: { id: string; queue: string },
): Promise<void> {
  const partition = partitionsOver(redis).of(id);
  const { keys } = partition;
  const lock = keys.inQueue(queue, `${id}:lock`);
  const work = { name: "another", lockDuration: 2000, stalledInterval: 500, results: RESULT_LIMITS };
  const backend = openBackends(partition, work)(queue);
  const holder = await redis.get(lock);
  if (holder === null) throw new Error(`no worker holds ${id}`);
  await eventually(`${id} is taken back`, async () => {
    if (![holder, null].includes(await redis.get(lock))) return true;
    await redis.del(lock, keys.inQueue(queue, "stalled-check"));
    await redis.sadd(keys.inQueue(queue, "stalled"), id);
    return (await backend.moveStalledJobsToWait()).includes(id);
  });
}
