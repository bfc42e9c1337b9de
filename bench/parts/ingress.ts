import type { Part } from "../../shared/dev/process.ts";
import { type Comparison, compareByTurns, comparisonTable, TURNS } from "../support/compare.ts";
import { type Count, type Counts, countAgain, countNothing, totalOf } from "../support/counts.ts";
import { load } from "../support/load.ts";
import { COLUMNS, type Round, timed } from "../support/round.ts";
import type { Setup } from "../support/setup.ts";
import { withBothSides } from "../support/sides.ts";
import { inWorld, type World } from "../support/world.ts";

/**
 * Comparison of the gateway with its baseline. With `withIds`, each request has a delivery id, by which the gateway finds
 * repeats. The hand-written baseline ignores the id.
 */
export type IngressByIds = Comparison<Round> & { withIds: boolean };
export type IngressFigures = Counts & { byIds: readonly IngressByIds[] };

type Side = { world: World; server: Part; count: Count };

/**
 * Measures how many calls per second the webhooks gateway and its baseline accept, in alternate turns. It measures first
 * without delivery ids and then with them.
 */
export function measureIngress(setup: Setup): Promise<IngressFigures> {
  const { quick, rounds } = setup;
  const size = quick ? { warmUp: 400, calls: 1000 } : { warmUp: 800, calls: 3200 };
  const starts = {
    program: async (world: World): Promise<Side> => ({
      world,
      server: await world.startGateway(),
      count: countAgain,
    }),
    baseline: async (world: World): Promise<Side> => ({
      world,
      server: await world.startBaselineIngress(),
      count: countNothing,
    }),
  };
  const turns =
    ({ world: { redis }, server }: Side, withIds: boolean) =>
    (): Promise<Round> =>
      timed({ redis, server, size }, () => load({ address: server.address, withIds, ...size }));
  return withBothSides(inWorld, setup, starts, async ({ ours, baseline }) => {
    const byIds: IngressByIds[] = [];
    for (const withIds of [false, true]) {
      const sides = { ours: turns(ours, withIds), baseline: turns(baseline, withIds) };
      byIds.push({ withIds, ...(await compareByTurns(rounds, sides)) });
    }
    const accepted = byIds.length * rounds * TURNS * (size.warmUp + size.calls);
    const countOf = async ({ world, server, count }: Side) => {
      await server.kill();
      return count(world, accepted);
    };
    return { byIds, ...totalOf([await countOf(ours), await countOf(baseline)]) };
  });
}

export function ingressTable(figures: IngressByIds): string {
  return comparisonTable(figures, {
    what: figures.withIds ? "accepted calls, with ids" : "accepted calls",
    name: "gateway",
    columns: [["calls/s", "perSecond"], ...COLUMNS, ["of Redis", "redisUs"]],
  });
}
