import { Secret } from "../../../shared/crypto/secret.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import type { Origin } from "../../../shared/job-call/job-call.ts";
import { silentLogger } from "../../../shared/log/logger.ts";
import { openQueue } from "../../../shared/queue/protocol.ts";
import { connectForWork } from "../../../shared/redis/connect.ts";

/** Waits until no call of this origin waits, runs or is delayed; failed calls stay and are in the answer. */
export async function untilDrained(redisUrl: string, origin: Origin): Promise<Record<string, number>> {
  const connection = connectForWork(new Secret(redisUrl), silentLogger);
  const queue = openQueue(connection, origin);
  const open = (counts: Record<string, number>) =>
    (counts["waiting"] ?? 0) + (counts["active"] ?? 0) + (counts["delayed"] ?? 0);
  try {
    return await eventually(
      "the queue is empty",
      async () => {
        const counts = await queue.getJobCounts("waiting", "active", "delayed", "failed");
        return open(counts) === 0 ? counts : undefined;
      },
      60_000,
    );
  } finally {
    await queue.close();
    connection.disconnect();
  }
}
