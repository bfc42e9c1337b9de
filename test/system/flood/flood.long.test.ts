import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { FLOODS, faultsIn, measureRound, RSS_MIB_MAX } from "../../support/flood/round.ts";
import { type FloodWorld, startFloodWorld } from "../../support/flood/world.ts";

/** `npm run bench -- flood` has longer ones, and more payments. */
const ROUND_MS = 2000;
const POOL_SIZE = 10_000;

let world: FloodWorld;

beforeAll(async () => {
  world = await startFloodWorld({ poolSize: POOL_SIZE });
});
afterAll(() => world?.end());

test.each(FLOODS.map((flood) => [flood.name, flood] as const))(
  "honest clients are served, and memory keeps to its bound, beside a flood of %s",
  async (_name, flood) => {
    const figures = await measureRound(world, flood, ROUND_MS);
    expect(figures.asked).toBeGreaterThanOrEqual(world.payers.length);
    expect(faultsIn(figures), JSON.stringify(figures)).toEqual([]);
  },
);

test("docs/operations.md names the memory that a flood takes at most", () => {
  const operations = readFileSync(new URL("../../../docs/operations.md", import.meta.url), "utf8");
  expect(operations).toContain(`${RSS_MIB_MAX} MiB under a flood`);
});
