import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { FLOODS, faultsIn, measureRound, RSS_MIB_MAX } from "../../support/flood/round.ts";
import { type FloodWorld, startFloodWorld } from "../../support/flood/world.ts";

/** `npm run bench -- flood` has longer rounds and more payments. */
const ROUND_MS = 2000;
const POOL_SIZE = 10_000;

let world: FloodWorld;

beforeAll(async () => {
  world = await startFloodWorld({ poolSize: POOL_SIZE });
});
afterAll(() => world?.end());

test.each(FLOODS.map((flood) => [flood.name, flood] as const))(
  "honest clients are served, and memory stays within its limit, during a flood of %s",
  async (_name, flood) => {
    const figures = await measureRound(world, flood, ROUND_MS);
    expect(figures.asked).toBeGreaterThanOrEqual(world.payers.length);
    expect(faultsIn(figures), JSON.stringify(figures)).toEqual([]);
  },
);

test("docs/sizing.md states how much memory a flooded payment gateway needs", () => {
  const sizing = readFileSync(new URL("../../../docs/sizing.md", import.meta.url), "utf8");
  expect(sizing).toMatch(new RegExp(`payment gateway, flooded \\| \\d+ MiB; give it ${RSS_MIB_MAX} \\|`));
});
