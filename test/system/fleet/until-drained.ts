import type { Origin } from "../../../shared/call/origin.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { createReadDepth } from "../../../shared/queue/depth.ts";
import { COUNTS, sums } from "../../../shared/queue/registry.ts";
import { askAll } from "../../../shared/redis/merge.ts";
import type { Places } from "../../fixtures/redis.ts";

type Counts = Record<(typeof COUNTS)[number], number>;

/** Waits until no call of this origin waits, runs or is delayed. Failed calls remain, and are in the answer. */
export async function untilDrained(
  { partitions }: Pick<Places, "partitions">,
  origin: Origin,
): Promise<Counts> {
  const readers = partitions.map((partition) => createReadDepth(partition, origin));
  const drained = async () => {
    const counts = sums(await askAll(readers, (readDepth) => readDepth()), COUNTS);
    return counts.waiting + counts.active + counts.delayed === 0 ? counts : undefined;
  };
  return await eventually("the queues are empty", drained);
}
