import type { Part } from "../../shared/dev/process.ts";
import { type Comparison, compareByTurns, comparisonTable } from "../support/compare.ts";
import { type Counts, totalOf } from "../support/counts.ts";
import { load } from "../support/load.ts";
import { type Size, withCpu } from "../support/round.ts";
import type { Setup } from "../support/setup.ts";
import { firstJobs, inWorld, type World } from "../support/world.ts";

type Round = { perSecond: number; cpuUs: number; redisUs: number };

export type DrainOfJobs = Comparison<Round> & { jobs: number };
export type DrainFigures = Counts & { byJobs: readonly DrainOfJobs[] };

const JOBS = [1, 100] as const;

/**
 * Calls injected per second: a producer and the hand-written baseline by turns, each on calls that wait already, of one job
 * and spread over many.
 */
export function measureDrain({ quick, nodeArgs }: Setup): Promise<DrainFigures> {
  const size = quick ? { warmUp: 400, calls: 1200 } : { warmUp: 800, calls: 4000 };
  const rounds = quick ? 3 : 7;
  return inWorld(nodeArgs, async (world) => {
    const counts: Counts[] = [];
    const ours = { ingress: await world.startGateway(), worker: await world.startProducer() };
    const baseline = {
      ingress: await world.startBaselineIngress(),
      worker: await world.startBaselineDrain(),
    };
    const turns = (side: Side, jobs: number) => async (): Promise<Round> => {
      const { calls, duplicates, ...figures } = await oneTurn(world, side, jobs, size);
      counts.push({ accepted: size.warmUp + size.calls, counted: calls, duplicates });
      return figures;
    };
    const byJobs: DrainOfJobs[] = [];
    for (const jobs of JOBS) {
      const sides = { ours: turns(ours, jobs), baseline: turns(baseline, jobs) };
      byJobs.push({ jobs, ...(await compareByTurns(rounds, sides)) });
    }
    return { byJobs, ...totalOf(counts) };
  });
}

type Side = { ingress: Part; worker: Part };

/** The worker stands still while its calls come. The first of them, while it gets going again, are not measured. */
async function oneTurn({ sink, redis }: World, { ingress, worker }: Side, jobs: number, size: Size) {
  const { pid } = worker.process;
  const calls = size.warmUp + size.calls;
  await sink.reset();
  process.kill(pid, "SIGSTOP");
  await load({ address: ingress.address, jobs: firstJobs(jobs), warmUp: 0, calls });
  const { cpuUs, redisUs } = await withCpu({ redis, server: worker, size }, () => {
    process.kill(pid, "SIGCONT");
    return sink.arrived(calls);
  });
  return { ...(await sink.count(size.warmUp)), cpuUs, redisUs };
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
