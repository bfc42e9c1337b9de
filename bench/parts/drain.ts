import type { Part } from "../../shared/dev/process.ts";
import { type Comparison, compare, comparisonTable } from "../support/compare.ts";
import type { Counts } from "../support/counts.ts";
import { load } from "../support/load.ts";
import { cpuMsOf } from "../support/proc.ts";
import type { Setup } from "../support/setup.ts";
import { firstJobs, inWorld, type World } from "../support/world.ts";

type Round = { perSecond: number; cpuUs: number; redisUs: number };
type Size = { warmUp: number; calls: number };

export type DrainOfJobs = Comparison<Round> & { jobs: number };
export type DrainFigures = Counts & { byJobs: readonly DrainOfJobs[] };

const JOBS = [1, 100] as const;

/**
 * Calls injected per second: a producer and the hand-written baseline by turns, each on calls that wait already, of one job
 * and spread over many.
 */
export function measureDrain({ quick, nodeArgs }: Setup): Promise<DrainFigures> {
  const size = quick ? { warmUp: 2000, calls: 5000 } : { warmUp: 4000, calls: 20_000 };
  const rounds = quick ? 3 : 5;
  return inWorld(nodeArgs, async (world) => {
    const counts = { accepted: 0, counted: 0, duplicates: 0 };
    const oneRound = async (jobs: number, startIngress: Start, startDrain: Start): Promise<Round> => {
      await fill(await startIngress(), jobs, size);
      const { calls, duplicates, ...figures } = await drain(world, startDrain, size);
      counts.accepted += size.warmUp + size.calls;
      counts.counted += calls;
      counts.duplicates += duplicates;
      return figures;
    };
    const sides = JOBS.map((jobs) => ({ jobs, ours: [] as Round[], baseline: [] as Round[] }));
    for (let round = 0; round < rounds; round++) {
      for (const { jobs, ours, baseline } of sides) {
        ours.push(await oneRound(jobs, world.startGateway, world.startProducer));
        baseline.push(await oneRound(jobs, world.startBaselineIngress, world.startBaselineDrain));
      }
    }
    const byJobs = sides.map(({ jobs, ours, baseline }) => ({ jobs, ...compare(ours, baseline) }));
    return { byJobs, ...counts };
  });
}

type Start = () => Promise<Part>;

async function fill(ingress: Part, jobs: number, { warmUp, calls }: Size): Promise<void> {
  await load({ address: ingress.address, jobs: firstJobs(jobs), warmUp: 0, calls: warmUp + calls });
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

export function drainTable(figures: DrainOfJobs): string {
  return comparisonTable(figures, {
    what: `injected calls, ${figures.jobs === 1 ? "1 job" : `${figures.jobs} jobs`}`,
    name: "producer",
    columns: [
      ["calls/s", "perSecond"],
      ["cpu µs/call", "cpuUs"],
      ["of Redis", "redisUs"],
    ],
  });
}
