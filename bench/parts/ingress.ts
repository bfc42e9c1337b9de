import type { Part } from "../../shared/dev/process.ts";
import { type Comparison, compareByTurns, comparisonTable, TURNS } from "../support/compare.ts";
import { type Count, type Counts, countAgain, countNothing, totalOf } from "../support/counts.ts";
import { load } from "../support/load.ts";
import { COLUMNS, type Round, timed } from "../support/round.ts";
import type { Setup } from "../support/setup.ts";
import { withBothSides } from "../support/sides.ts";
import { inWorld, type World } from "../support/world.ts";

export type IngressFigures = Comparison<Round> & Counts;

type Side = { world: World; server: Part; count: Count };

/**
 * Calls accepted per second: the gateway and its baseline by turns. With ids, each call has a delivery id, of which the hand-written
 * baseline knows nothing.
 */
export function measureIngress(setup: Setup, withIds = false): Promise<IngressFigures> {
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
    ({ world: { redis }, server }: Side) =>
    (): Promise<Round> =>
      timed({ redis, server, size }, () => load({ address: server.address, withIds, ...size }));
  const accepted = rounds * TURNS * (size.warmUp + size.calls);
  const countOf = async ({ world, server, count }: Side) => {
    await server.kill();
    return count(world, accepted);
  };
  return withBothSides(inWorld, setup, starts, async ({ ours, baseline }) => {
    const compared = await compareByTurns(rounds, { ours: turns(ours), baseline: turns(baseline) });
    return { ...compared, ...totalOf([await countOf(ours), await countOf(baseline)]) };
  });
}

export function ingressTable(figures: IngressFigures): string {
  return comparisonTable(figures, {
    what: "accepted calls",
    name: "gateway",
    columns: [["calls/s", "perSecond"], ...COLUMNS, ["of Redis", "redisUs"]],
  });
}
