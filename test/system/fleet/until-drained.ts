import type { Origin } from "../../../shared/call/origin.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { createReadDepth } from "../../../shared/queue/depth.ts";
import type { Depth } from "../../../shared/queue/registry.ts";
import { connectForWork } from "../../../shared/redis/connect.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";

/** Waits until no call of this origin waits, runs or is delayed; failed calls stay and are in the answer. */
export async function untilDrained(redisUrl: string, origin: Origin): Promise<Depth> {
  const connection = connectForWork({ url: new Secret(redisUrl) }, silentLogger);
  const readDepth = createReadDepth(partitionOf(connection), origin);
  const drained = async () => {
    const depth = await readDepth();
    return depth.waiting + depth.active + depth.delayed === 0 ? depth : undefined;
  };
  try {
    return await eventually("the queues are empty", drained);
  } finally {
    connection.disconnect();
  }
}
