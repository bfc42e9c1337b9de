import type { Part } from "../../shared/dev/process.ts";
import { createEnqueue } from "../../shared/queue/enqueue.ts";
import { partitionOf } from "../../shared/redis/partition.ts";
import type { Counts } from "../support/counts.ts";
import { fill, timeEach } from "../support/fill.ts";
import { load } from "../support/load.ts";
import { rssBytesOf } from "../support/proc.ts";
import { openProbe } from "../support/redis-probe.ts";
import type { Setup } from "../support/setup.ts";
import { quantile } from "../support/statistics.ts";
import { inWorld, type World } from "../support/world.ts";

export type Level = {
  waiting: number;
  redisBytes: number;
  bytesPerCall: number;
  gatewayRssBytes: number;
  /** One add after the other, from the bench's own process. */
  addP50Ms: number;
  addP99Ms: number;
  /** Requests to the gateway on all its connections at once. */
  requestP50Ms: number;
  requestP99Ms: number;
};

export type ByDepth = Counts & {
  levels: Level[];
  finishedBytesPerCall: number;
  producer: { idleRssBytes: number; drainingRssBytes: number };
};

/** What grows with the number of waiting calls, and what is left when all of them have been injected. */
export function measureByDepth({ quick, nodeArgs }: Setup): Promise<ByDepth> {
  const depths = quick ? [1000, 5000, 20_000] : [1000, 10_000, 100_000, 300_000];
  return inWorld(nodeArgs, async (world) => {
    const idleRssBytes = await idleProducer(world);
    const gateway = await world.startGateway();
    await load({ address: gateway.address, warmUp: 0, calls: 1 });
    const probe = await openProbe(world.redis.url);
    const add = createEnqueue(partitionOf(probe.redis));
    const emptyBytes = await probe.usedBytes();
    const levels: Level[] = [];
    let accepted = 1;
    for (const depth of depths) {
      await fill(depth - accepted, add);
      const redisBytes = await probe.usedBytes();
      const { figures, added } = await timeAdds(gateway, add);
      accepted = depth + added;
      const bytesPerCall = (redisBytes - emptyBytes) / depth;
      levels.push({
        waiting: depth,
        redisBytes,
        bytesPerCall,
        gatewayRssBytes: rssBytesOf(gateway.process.pid),
        ...figures,
      });
    }
    await gateway.kill();
    const { drainingRssBytes, ...counts } = await drainAll(world, accepted);
    const finishedBytesPerCall = ((await probe.usedBytes()) - emptyBytes) / accepted;
    probe.close();
    return { ...counts, levels, finishedBytesPerCall, producer: { idleRssBytes, drainingRssBytes } };
  });
}

async function idleProducer({ startProducer }: World): Promise<number> {
  const producer = await startProducer();
  const rssBytes = rssBytesOf(producer.process.pid);
  await producer.kill();
  return rssBytes;
}

async function timeAdds(gateway: Part, add: ReturnType<typeof createEnqueue>) {
  const [singly, together] = [300, 600];
  const took = await timeEach(singly, add);
  const { p50Ms, p99Ms } = await load({ address: gateway.address, warmUp: 0, calls: together });
  const figures = {
    addP50Ms: quantile(took, 0.5),
    addP99Ms: quantile(took, 0.99),
    requestP50Ms: p50Ms,
    requestP99Ms: p99Ms,
  };
  return { figures, added: singly + together };
}

/** The producer's memory is looked at while half of the calls still wait. */
async function drainAll(world: World, accepted: number): Promise<Counts & { drainingRssBytes: number }> {
  const producer = await world.startProducer();
  await world.sink.arrived(accepted / 2);
  const drainingRssBytes = rssBytesOf(producer.process.pid);
  const { calls: counted, duplicates } = await world.sink.arrived(accepted);
  await producer.kill();
  return { accepted, counted, duplicates, drainingRssBytes };
}
