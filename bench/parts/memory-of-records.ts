import { createAccept } from "../../shared/gateway/accept.ts";
import { createEnqueue } from "../../shared/queue/enqueue.ts";
import { partitionOf } from "../../shared/redis/partition.ts";
import type { Counts } from "../support/counts.ts";
import { fill } from "../support/fill.ts";
import { openProbe } from "../support/redis-probe.ts";
import type { Setup } from "../support/setup.ts";
import { inWorld } from "../support/world.ts";

export type OfRecords = Counts & { waitingBytesPerCall: number; finishedBytesPerCall: number };

const WEEK_MS = 7 * 86_400_000;

/** A call with a delivery id: it has a record while it waits, and leaves it behind for a week when it has ended. */
export function measureOfRecords({ quick, nodeArgs }: Setup): Promise<OfRecords> {
  const accepted = quick ? 5000 : 20_000;
  return inWorld(nodeArgs, async (world) => {
    const probe = await openProbe(world.redis.url);
    const accept = createAccept({
      enqueue: createEnqueue(partitionOf(probe.redis)),
      beginWrite: () => (write) => write("small"),
    });
    const emptyBytes = await probe.usedBytes();
    const bytesPerCall = async () => ((await probe.usedBytes()) - emptyBytes) / accepted;
    await fill(accepted, (call) => accept(call, { windowMs: WEEK_MS, bodySha256: call.sha256 }));
    const waitingBytesPerCall = await bytesPerCall();
    const producer = await world.startProducer();
    const { calls: counted, duplicates } = await world.sink.arrived(accepted);
    await producer.kill();
    const finishedBytesPerCall = await bytesPerCall();
    probe.close();
    return { accepted, counted, duplicates, waitingBytesPerCall, finishedBytesPerCall };
  });
}
