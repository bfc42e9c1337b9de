import type { ResultMark } from "../../shared/call/results/answer.ts";
import { openBackends } from "../../shared/queue/backend.ts";
import type { QueueName } from "../../shared/queue/queue-name.ts";
import type { Partition } from "../../shared/redis/partition.ts";
import { WORK } from "./results.ts";

/** Writes what a worker writes of a call that the runner has, if the call is no longer in its hands. */
export async function markInjected(
  partition: Partition,
  { id, queue }: { id: string; queue: QueueName },
  result?: ResultMark,
) {
  const finished = openBackends(
    partition,
    WORK,
  )(queue).injected(id, "a lost lock", {
    ...{ fetchNext: undefined, windowMs: 3_600_000, retried: true, result },
  });
  await finished.catch(() => {});
}
