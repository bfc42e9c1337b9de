import { openBackends } from "../../shared/queue/backend.ts";
import type { Partition } from "../../shared/redis/partition.ts";

/** The call is taken from its worker, as if that had stood still for longer than its lock. */
export async function takeBack(
  partition: Partition,
  { id, queue }: { id: string; queue: string },
): Promise<void> {
  const { redis, keys } = partition;
  await redis.del(keys.inQueue(queue, `${id}:lock`), keys.inQueue(queue, "stalled-check"));
  await redis.sadd(keys.inQueue(queue, "stalled"), id);
  const work = { name: "another", lockDuration: 2000, stalledInterval: 500 };
  const taken = await openBackends(partition, work)(queue).moveStalledJobsToWait();
  if (!taken.includes(id)) throw new Error(`${id} was in nobody's hand`);
}
