import type { Part } from "../../shared/dev/process.ts";
import { type Comparison, compare, comparisonTable } from "../support/compare.ts";
import type { Counts } from "../support/counts.ts";
import { load } from "../support/load.ts";
import { cpuMsOf } from "../support/proc.ts";
import type { Setup } from "../support/setup.ts";
import { inWorld, type World } from "../support/world.ts";

type Round = { perSecond: number; cpuUs: number; redisUs: number };
type Size = { warmUp: number; calls: number };

export type DrainFigures = Comparison<Round> & Counts;

/** Calls injected per second: a producer and the hand-written baseline by turns, each on a queue filled beforehand. */
export function measureDrain({ quick, nodeArgs }: Setup): Promise<DrainFigures> {
  const size = quick ? { warmUp: 2000, calls: 5000 } : { warmUp: 4000, calls: 20_000 };
  const rounds = quick ? 3 : 5;
  return inWorld(nodeArgs, async (world) => {
    const counts = { accepted: 0, counted: 0, duplicates: 0 };
    const oneRound = async (startIngress: Start, startDrain: Start): Promise<Round> => {
      await fill(await startIngress(), size);
      const { calls, duplicates, ...figures } = await drain(world, startDrain, size);
      counts.accepted += size.warmUp + size.calls;
      counts.counted += calls;
      counts.duplicates += duplicates;
      return figures;
    };
    const ours: Round[] = [];
    const baseline: Round[] = [];
    for (let round = 0; round < rounds; round++) {
      ours.push(await oneRound(world.startGateway, world.startProducer));
      baseline.push(await oneRound(world.startBaselineIngress, world.startBaselineDrain));
    }
    return { ...compare(ours, baseline), ...counts };
  });
}

type Start = () => Promise<Part>;

async function fill(ingress: Part, { warmUp, calls }: Size): Promise<void> {
  await load({ address: ingress.address, warmUp: 0, calls: warmUp + calls });
  await ingress.kill();
}

/** A fresh process each time; its first calls, while its code is still cold, are not measured. */
async function drain({ sink, redis }: World, start: Start, { warmUp, calls }: Size) {
  const perCall = (ms: number) => (ms * 1000) / (warmUp + calls);
  await sink.reset();
  const worker = await start();
  const before = { worker: cpuMsOf(worker.process.pid), redis: cpuMsOf(redis.pid) };
  await sink.arrived(warmUp + calls);
  const cpuUs = perCall(cpuMsOf(worker.process.pid) - before.worker);
  const redisUs = perCall(cpuMsOf(redis.pid) - before.redis);
  await worker.kill();
  return { ...(await sink.count(warmUp)), cpuUs, redisUs };
}

export function drainTable(figures: DrainFigures): string {
  return comparisonTable(figures, {
    what: "injected calls",
    name: "producer",
    columns: [
      ["calls/s", "perSecond"],
      ["cpu µs/call", "cpuUs"],
      ["of Redis", "redisUs"],
    ],
  });
}
