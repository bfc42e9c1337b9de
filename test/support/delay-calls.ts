import { openBackends, type QueueBackend } from "../../shared/queue/backend.ts";
import { queuesOf } from "../../shared/queue/queue-name.ts";
import type { Partition } from "../../shared/redis/partition.ts";
import { partitionsOver } from "./partitions.ts";
import { RESULT_LIMITS } from "./results.ts";

const WORK = { name: "worker", lockDuration: 30_000, stalledInterval: 30_000, results: RESULT_LIMITS };
const TOKEN = "worker:1";

/**
 * Fails one attempt of every waiting call of a job. The first call is then delayed for `ms`, and each further one for
 * 1 s more. Returns their ids.
 */
export async function delayCalls(
  { redis }: Pick<Partition, "redis">,
  job = "7/1",
  ms = 600_000,
): Promise<string[]> {
  const ids: string[] = [];
  for (const partition of partitionsOver(redis).all) {
    const backendOf = openBackends(partition, WORK);
    for (const queue of queuesOf(job)) await delayAll(backendOf(queue), ids, ms);
  }
  return ids;
}

async function delayAll(backend: QueueBackend, ids: string[], ms: number): Promise<void> {
  for (;;) {
    const fetched = await backend.fetch(TOKEN, { bytes: undefined, alone: true });
    if (fetched.kind !== "call") return;
    await backend.moveToDelayed(fetched.id, Date.now(), ms + 1000 * ids.length, TOKEN, {});
    ids.push(fetched.id);
  }
}
