import { createDeliverResult } from "../../shared/calls/deliver-result.ts";
import { randomCallId } from "../../shared/job-call/call-id.ts";
import { partitionOf } from "../../shared/redis/partition.ts";
import { RESULT_LIMITS } from "../../shared/results/limits.ts";
import { openProbe } from "../support/redis-probe.ts";
import type { Setup } from "../support/setup.ts";
import { inWorld } from "../support/world.ts";

/** Bytes of Redis for a kept result beside the record of its call, by the size of its body. */
export type OfResults = readonly { bodyBytes: number; bytesPerResult: number }[];

const BODIES = [100, 1000, 10_000, 100_000];
const AT_ONCE = 100;

export async function measureOfResults(setup: Setup): Promise<OfResults> {
  const measured = [];
  for (const bodyBytes of BODIES)
    measured.push({ bodyBytes, bytesPerResult: await bytesPerResult(setup, bodyBytes) });
  return measured;
}

function bytesPerResult({ quick, nodeArgs }: Setup, bodyBytes: number): Promise<number> {
  const count = quick ? 1000 : 5000;
  return inWorld(nodeArgs, async (world) => {
    const probe = await openProbe(world.redis.url);
    const deliver = createDeliverResult(partitionOf(probe.redis), { ...RESULT_LIMITS, bytesMax: 2 ** 31 });
    const body = Buffer.alloc(bodyBytes, "x");
    const keepOne = () =>
      deliver(randomCallId(), {
        ...{ kind: "answer", status: 200, contentType: "application/json", by: "delivery" },
        ...{ body, at: Date.now() },
      });
    const keep = async (times: number): Promise<void> => {
      for (let done = 0; done < times; done += AT_ONCE)
        await Promise.all(Array.from({ length: AT_ONCE }, keepOne));
    };
    await keep(AT_ONCE);
    const before = await probe.usedBytes();
    await keep(count);
    const bytes = (await probe.usedBytes()) - before;
    probe.close();
    return bytes / count;
  });
}
