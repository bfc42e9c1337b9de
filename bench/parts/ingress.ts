import type { Part } from "../../shared/dev/process.ts";
import { type Comparison, compareByTurns, comparisonTable, TURNS } from "../support/compare.ts";
import type { Counts } from "../support/counts.ts";
import { load } from "../support/load.ts";
import { COLUMNS, type Round, timed } from "../support/round.ts";
import type { Setup } from "../support/setup.ts";
import { inWorld, startGateway, type World } from "../support/world.ts";

export type IngressFigures = Comparison<Round> & Counts;

/**
 * Calls accepted per second: the gateway and the hand-written baseline, or another build's gateway, by turns, on the same Redis. With ids, each call has a delivery
 * id, of which the baseline knows nothing.
 */
export function measureIngress(
  { quick, nodeArgs, against }: Setup,
  withIds = false,
): Promise<IngressFigures> {
  const size = quick ? { warmUp: 400, calls: 1000 } : { warmUp: 800, calls: 3200 };
  const rounds = quick ? 3 : 7;
  return inWorld(nodeArgs, async (world) => {
    const gateway = await world.startGateway();
    const bare = await (against === undefined ? world.startBaselineIngress() : startGateway(world, against));
    const { redis } = world;
    const oneTurn = (server: Part) => (): Promise<Round> =>
      timed({ redis, server, size }, () => load({ address: server.address, withIds, ...size }));
    const compared = await compareByTurns(rounds, { ours: oneTurn(gateway), baseline: oneTurn(bare) });
    await gateway.kill();
    const sides = against === undefined ? 1 : 2;
    const accepted = sides * rounds * TURNS * (size.warmUp + size.calls);
    return { ...compared, ...(await countAgain(world, accepted)) };
  });
}

/** Everything accepted is injected now, and counted where it arrives. */
export async function countAgain({ sink, startProducer }: World, accepted: number): Promise<Counts> {
  const producer = await startProducer();
  const { calls: counted, duplicates } = await sink.arrived(accepted);
  await producer.kill();
  return { accepted, counted, duplicates };
}

export function ingressTable(figures: IngressFigures): string {
  return comparisonTable(figures, {
    what: "accepted calls",
    name: "gateway",
    columns: [["calls/s", "perSecond"], ...COLUMNS, ["of Redis", "redisUs"]],
  });
}
