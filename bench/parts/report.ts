import { type Comparison, compareByTurns, comparisonTable, TURNS } from "../support/compare.ts";
import { type Counts, totalOf } from "../support/counts.ts";
import { load } from "../support/load.ts";
import { type Round as IngressRound, COLUMNS as OF_INGRESS, timed } from "../support/round.ts";
import type { Setup } from "../support/setup.ts";
import { firstJobs, inWorld, type World } from "../support/world.ts";
import { type Round as DrainRound, COLUMNS as OF_DRAIN, oneTurn, type Side } from "./drain.ts";

export type ReportFigures = Counts & {
  ingress: Comparison<IngressRound>;
  /** Calls of so many jobs. */
  drains: readonly { jobs: number; drain: Comparison<DrainRound> }[];
};

const OFF = { console: { report: false, history_secs: 0 } };

/**
 * What it costs that processes tell what they count and remember calls, as they do by default: the gateway and the producer by turns with
 * themselves, each pair on a Redis of its own.
 */
export function measureReport({ quick, rounds, nodeArgs }: Setup): Promise<ReportFigures> {
  const size = quick ? { warmUp: 400, calls: 1200 } : { warmUp: 800, calls: 4000 };
  const inBoth = (measure: (worlds: { ours: World; baseline: World }) => Promise<ReportFigures>) =>
    inWorld(nodeArgs, (ours) =>
      inWorld(nodeArgs, (baseline) => measure({ ours, baseline }), { postern: OFF }),
    );
  return inBoth(async ({ ours, baseline }) => {
    const counts: Counts[] = [];
    const [one, other] = await Promise.all([ours, baseline].map(createTurns));
    if (one === undefined || other === undefined) throw new Error("a world is missing");
    const ingress = await compareByTurns(rounds, { ours: one.ingress, baseline: other.ingress });
    counts.push(await one.begin(), await other.begin());
    const drains: ReportFigures["drains"][number][] = [];
    for (const jobs of [1, 100]) {
      const drain = await compareByTurns(rounds, { ours: one.drain(jobs), baseline: other.drain(jobs) });
      drains.push({ jobs, drain });
    }
    return { ingress, drains, ...totalOf([...counts, ...one.counts, ...other.counts]) };
  });

  async function createTurns(world: World) {
    const { redis, sink } = world;
    const gateway = await world.startGateway();
    const counts: Counts[] = [];
    let side: Side | undefined;
    return {
      counts,
      ingress: () =>
        timed({ redis, server: gateway, size }, () => load({ address: gateway.address, ...size })),
      /** The calls that the ingress has left are injected and counted, by the producer that drains from now on. */
      async begin(): Promise<Counts> {
        const accepted = rounds * TURNS * (size.warmUp + size.calls);
        side = { ingress: gateway, worker: await world.startProducer() };
        const { calls: counted, duplicates } = await sink.arrived(accepted);
        return { accepted, counted, duplicates };
      },
      drain: (jobs: number) => async (): Promise<DrainRound> => {
        if (side === undefined) throw new Error("no producer has begun");
        const { calls, duplicates, ...figures } = await oneTurn(world, side, { jobs }, size);
        counts.push({ accepted: size.warmUp + size.calls, counted: calls, duplicates });
        return figures;
      },
    };
  }
}

export function reportTables({ ingress, drains }: ReportFigures): string[] {
  const name = "told and kept";
  const columns = [["calls/s", "perSecond"], ...OF_INGRESS, ["of Redis", "redisUs"]] as const;
  return [
    comparisonTable(ingress, { what: "accepted calls", name, columns }),
    ...drains.map(({ jobs, drain }) =>
      comparisonTable(drain, {
        what: `injected calls, ${firstJobs(jobs).length} job${jobs === 1 ? "" : "s"}`,
        name,
        columns: OF_DRAIN,
      }),
    ),
  ];
}
