import { describe, expect, test } from "vitest";
import { loginOf } from "../../fixtures/redis.ts";
import { useSentinels } from "../../fixtures/redis-topology.ts";
import { measureFailover, startFailoverWorld } from "../../support/failover/world.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { testFailovers } from "./rounds.ts";

describe("with Sentinel and durability replicated", () => testFailovers(useSentinels(), 2));

onlyInLongRun(() => {
  describe("with Sentinel and durability strict", () => {
    const redis = useSentinels();

    test("a primary that is killed while its replicas are disconnected loses calls that were answered with 202, as the documentation says", async () => {
      const world = await startFailoverWorld(redis, { settings: {}, loginOf });
      try {
        const figures = await measureFailover(world, "was killed while its replicas were cut off");
        console.log({ ...figures, lost: figures.lost.length });
        expect(figures.lost.length).toBeGreaterThan(0);
      } finally {
        await world.end();
      }
    });
  });
});
