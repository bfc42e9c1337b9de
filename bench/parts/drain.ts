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
   * Compares the producer that keeps results with the same producer that keeps none. Undefined if the baseline is another
   * build.
   */
  kept: Comparison<Round> | undefined;
};

const JOBS = [1, 100] as const;

/**
 * Measures calls injected per second, alternately for a producer and its baseline. All calls wait before a turn starts. They
 * are of one job, or spread over many. Then compares the producer with and without kept results.
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

/** Measures one turn. The worker is stopped while its calls are added. The first calls after it continues are not measured. */
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

/** Builds the table of the producer with kept results. Its baseline is the same producer without them. */
export function keptTable(figures: Comparison<Round>): string {
  return comparisonTable(figures, { what: "injected calls, 1 job", name: "results kept", columns: COLUMNS });
}
