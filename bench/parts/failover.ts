import { startCluster, startSentinels, type Topology } from "../../test/support/failover/topology.ts";
import { WAYS, type WayName } from "../../test/support/failover/ways.ts";
import { measureFailover, startFailoverWorld } from "../../test/support/failover/world.ts";
import type { Setup } from "../support/setup.ts";
import { median } from "../support/statistics.ts";
import { table } from "../support/table.ts";

const ROUNDS = 10;
const WAY_NAMES = Object.keys(WAYS) as WayName[];

/** Sums over all rounds in which the primary of the same topology failed in the same way. */
type WayFigures = {
  topology: string;
  durability: string;
  way: WayName;
  accepted: number;
  lost: number;
  sentAgain: number;
  /** Time in each round, in seconds, in which the gateway accepted no call because the primary had failed. */
  without202Secs: number[];
};

export type FailoverBench = { ways: WayFigures[]; failures: string[] };

type Plan = {
  topology: string;
  start: () => Promise<Topology>;
  settings: { durability: string; min_replicas?: number };
};

const PLANS: readonly Plan[] = [
  { topology: "Sentinel", start: startSentinels, settings: { durability: "replicated", min_replicas: 2 } },
  { topology: "Cluster", start: startCluster, settings: { durability: "replicated", min_replicas: 1 } },
  { topology: "Sentinel", start: startSentinels, settings: { durability: "strict" } },
  { topology: "Cluster", start: startCluster, settings: { durability: "strict" } },
];

/**
 * Sends webhooks without a pause while the Redis primary fails in each of the ways (test/support/failover/ways.ts). With
 * `strict`, calls may be lost, because no replica has to confirm a write. Such losses are shown, but are not failures of the
 * bench.
 */
export async function measureFailovers({ quick }: Setup): Promise<FailoverBench> {
  const ways: WayFigures[] = [];
  for (const plan of PLANS) ways.push(...(await measurePlan(plan, quick ? 1 : ROUNDS)));
  const failures = ways
    .filter(({ durability, lost }) => durability === "replicated" && lost > 0)
    .map(({ topology, way, lost }) => `${topology}: ${lost} calls lost when the primary ${way}`);
  return { ways, failures };
}

async function measurePlan({ topology, start, settings }: Plan, rounds: number): Promise<WayFigures[]> {
  const redis = await start();
  const world = await startFailoverWorld(redis, { settings });
  try {
    const all: WayFigures[] = [];
    for (const way of WAY_NAMES) {
      const { durability } = settings;
      const sum = { accepted: 0, lost: 0, sentAgain: 0 };
      const without202Secs: number[] = [];
      for (let round = 0; round < rounds; round++) {
        const figures = await measureFailover(world, way);
        sum.accepted += figures.accepted;
        sum.lost += figures.lost.length;
        sum.sentAgain += figures.sentAgain;
        without202Secs.push(figures.without202Ms / 1000);
      }
      all.push({ topology, durability, way, ...sum, without202Secs });
    }
    return all;
  } finally {
    await world.end();
    await redis.end();
  }
}

export function failoverTable({ ways }: FailoverBench): string {
  return table(
    ["the primary", "accepted", "lost", "sent again", "s without 202, median", "longest"],
    ways.map(({ topology, durability, way, accepted, lost, sentAgain, without202Secs }) => [
      ...[`${topology}, ${durability}: ${way}`, accepted, lost, sentAgain],
      ...[median(without202Secs), Math.max(...without202Secs)],
    ]),
  );
}
