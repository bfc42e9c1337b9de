import type { ResultMark } from "../../shared/call/results/answer.ts";
import { openBackends } from "../../shared/queue/backend.ts";
import type { QueueName } from "../../shared/queue/queue-name.ts";
import type { Partition } from "../../shared/redis/partition.ts";
import { partitionsOver } from "./partitions.ts";
import { WORK } from "./results.ts";

/** Writes the record that a worker writes once the runner has accepted the call, if the worker no longer holds it. */
export async function markInjected(
  { redis }: Pick<Partition, "redis">,
  { id, queue }: { id: string; queue: QueueName },
  result?: ResultMark,
) {
  const backendOf = openBackends(partitionsOver(redis).of(id), WORK);
  const finished = backendOf(queue).injected(id, "a lost lock", {
    ...{ fetchNext: undefined, windowMs: 3_600_000, retried: true, result },
  });
  await finished.catch(() => {});
}
