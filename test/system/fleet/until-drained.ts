import type { Origin } from "../../../shared/call/origin.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { originOf } from "../../../shared/queue/queue-name.ts";
import { type Depth, openRegistry, sumOfDepths } from "../../../shared/queue/registry.ts";
import { askAll } from "../../../shared/redis/merge.ts";
import type { Places } from "../../fixtures/redis.ts";

/**
 * Waits until no call of this origin waits, runs, or is delayed or held. Failed calls remain, and are in the answer. Counts
 * the queues themselves, because the depth that gateways read is cached.
 */
export async function untilDrained(
  { partitions }: Pick<Places, "partitions">,
  origin: Origin,
): Promise<Depth> {
  const registries = partitions.map(openRegistry);
  const drained = async () => {
    const depths = (await askAll(registries, (registry) => registry.depths())).flat();
    const sum = sumOfDepths(depths.filter(({ queue }) => originOf(queue) === origin));
    return sum.waiting + sum.active + sum.delayed + sum.held === 0 ? sum : undefined;
  };
  return await eventually("the queues are empty", drained);
}
