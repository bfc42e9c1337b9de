import type { Part } from "../../shared/dev/process.ts";
import { type Comparison, compareByTurns, comparisonTable } from "../support/compare.ts";
import { type Counts, totalOf } from "../support/counts.ts";
import { load } from "../support/load.ts";
import { type Size, withCpu } from "../support/round.ts";
import type { Setup } from "../support/setup.ts";
import { withBothSides } from "../support/sides.ts";
import { firstJobs, inWorld, type World } from "../support/world.ts";

export type Round = { perSecond: number; cpuUs: number; redisUs: number };

export type DrainOfJobs = Comparison<Round> & { jobs: number };
export type DrainFigures = Counts & {
  byJobs: readonly DrainOfJobs[];
  /**
   * Compares a producer that keeps the runner's results with the same producer when it keeps none. Undefined if the bench
   * compares two builds of Postern, because this comparison needs only one.
   */
  kept: Comparison<Round> | undefined;
};

const JOBS = [1, 100] as const;

/**
 * Measures how many calls per second a producer and its baseline inject, in alternate turns. All calls of a turn are in the
 * queue before the turn starts. It measures once with all calls of one job, and once with calls of many jobs. Then it
 * compares the producer with and without kept results.
 */
export function measureDrain(setup: Setup): Promise<DrainFigures> {
  const { quick, rounds, against } = setup;
  const size = quick ? { warmUp: 400, calls: 1200 } : { warmUp: 800, calls: 4000 };
  const counts: Counts[] = [];
  const turnsOf = (world: World, side: Side) => (asked: Asked) => async (): Promise<Round> => {
    const { calls, duplicates, ...figures } = await oneTurn(world, side, asked, size);
    counts.push({ accepted: size.warmUp + size.calls, counted: calls, duplicates });
    return figures;
  };
  const starts = {
    async program(world: World) {
      return turnsOf(world, { ingress: await world.startGateway(), worker: await world.startProducer() });
    },
    async baseline(world: World) {
      const ingress = await world.startBaselineIngress();
      return turnsOf(world, { ingress, worker: await world.startBaselineDrain() });
    },
  };
  return withBothSides(inWorld, setup, starts, async ({ ours, baseline }) => {
    const byJobs: DrainOfJobs[] = [];
    for (const jobs of JOBS) {
      const sides = { ours: ours({ jobs }), baseline: baseline({ jobs }) };
      byJobs.push({ jobs, ...(await compareByTurns(rounds, sides)) });
    }
    const withIds = { jobs: 1, withIds: true };
    const sides = { ours: ours({ ...withIds, isKept: true }), baseline: ours(withIds) };
    const kept = against === undefined ? await compareByTurns(rounds, sides) : undefined;
    return { byJobs, kept, ...totalOf(counts) };
  });
}

export type Side = { ingress: Part; worker: Part };
type Asked = { jobs: number; withIds?: boolean; isKept?: boolean };

/**
 * Measures one turn. SIGSTOP halts the worker (a producer or its baseline) while the calls are added, and SIGCONT lets it
 * continue. The first calls that it then injects are a warm-up, and are not measured.
 */
export async function oneTurn(
  { sink, redis }: World,
  { ingress, worker }: Side,
  { jobs, ...rest }: Asked,
  size: Size,
) {
  const { pid } = worker.process;
  const calls = size.warmUp + size.calls;
  await sink.reset();
  process.kill(pid, "SIGSTOP");
  await load({ address: ingress.address, jobs: firstJobs(jobs), ...rest, warmUp: 0, calls });
  const { cpuUs, redisUs } = await withCpu({ redis, server: worker, size }, () => {
    process.kill(pid, "SIGCONT");
    return sink.arrived(calls);
  });
  return { ...(await sink.count(size.warmUp)), cpuUs, redisUs };
}

export const COLUMNS = [
  ["calls/s", "perSecond"],
  ["cpu µs/call", "cpuUs"],
  ["of Redis", "redisUs"],
] as const;

export function drainTable(figures: DrainOfJobs): string {
  const what = `injected calls, ${figures.jobs === 1 ? "1 job" : `${figures.jobs} jobs`}`;
  return comparisonTable(figures, { what, name: "producer", columns: COLUMNS });
}

/** Builds the table for a producer that keeps results ("results kept"), compared to one that keeps none. */
export function keptTable(figures: Comparison<Round>): string {
  return comparisonTable(figures, { what: "injected calls, 1 job", name: "results kept", columns: COLUMNS });
}
