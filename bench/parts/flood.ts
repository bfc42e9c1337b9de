import {
  CALM,
  FLOODS,
  faultsIn,
  measureRound,
  type RoundFigures,
  RSS_MIB_MAX,
  SERVED_SHARE_MIN,
} from "../../test/support/flood/round.ts";
import { startFloodWorld } from "../../test/support/flood/world.ts";
import type { Setup } from "../support/setup.ts";
import { table } from "../support/table.ts";

const QUICK = { roundMs: 3000, poolSize: 10_000 };
const FULL = { roundMs: 10_000, poolSize: 40_000 };

export type FloodFigures = { rounds: RoundFigures[]; failures: string[] };

/**
 * Measures how many requests of honest clients are served, and how fast, during each kind of flood. One payment gateway and
 * one pricing engine face all the floods, one after the other.
 */
export async function measureFlood({ quick }: Setup): Promise<FloodFigures> {
  const { roundMs, poolSize } = quick ? QUICK : FULL;
  const world = await startFloodWorld({ poolSize });
  try {
    const rounds: RoundFigures[] = [];
    for (const round of [CALM, ...FLOODS]) rounds.push(await measureRound(world, round, roundMs));
    return { rounds, failures: rounds.flatMap(faultsIn) };
  } finally {
    await world.end();
  }
}

export function floodTable({ rounds }: FloodFigures): string {
  const rows = table(
    ["a flood of", "hostile/s", "asked", "served", "%", "p50 ms", "p99 ms", "peak RSS, MiB"],
    rounds.map(({ name, hostilePerSec, asked, served, share, p50Ms, p99Ms, peakRssMib }) => [
      ...[name, hostilePerSec, asked, served, share * 100, p50Ms, p99Ms, peakRssMib],
    ]),
  );
  return `${rows}\n\n  targets: ${SERVED_SHARE_MIN * 100} % served, at most ${RSS_MIB_MAX} MiB, /readyz at 200`;
}
