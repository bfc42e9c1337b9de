import { afterAll, beforeAll, expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { loginOf } from "../../fixtures/redis.ts";
import { at, type Topology } from "../../support/failover/topology.ts";
import { WAYS, type WayName } from "../../support/failover/ways.ts";
import {
  callIdOf,
  type FailoverWorld,
  IN_FLIGHT,
  measureFailover,
  SMALL_LOAD,
  startFailoverWorld,
} from "../../support/failover/world.ts";
import { LONG_RUN, onlyInLongRun, sample } from "../../support/long-run.ts";
import { seeded } from "../fleet/seeded.ts";

const NAMES = Object.keys(WAYS) as WayName[];

/** Declares a test for each kind of failure of this topology's servers. */
export function testFailovers(redis: Topology, minReplicas: number, partitions = 1): void {
  let world: FailoverWorld;
  beforeAll(async () => {
    const settings = { durability: "replicated", min_replicas: minReplicas };
    world = await startFailoverWorld(redis, { settings, loginOf, partitions });
  });
  afterAll(() => world.end());

  // A round takes about 20 seconds, so a short run draws one.
  const { pick, shuffle } = seeded(Date.now());
  test.each(sample([...shuffle(NAMES), ...shuffle(NAMES)]))(
    "no call that was answered with 202 is lost if the primary %s under load, and few calls are sent twice",
    { timeout: 300_000 },
    async (way) => {
      const hit = pick(world.prefixes.all);
      const figures = await measureFailover(world, way, LONG_RUN ? undefined : SMALL_LOAD, hit);
      if (LONG_RUN) console.log({ ...figures, hit });
      expect(figures.waiting, "calls that wait while the producer stands still").toBe(0);
      expect(figures.lost).toEqual([]);
      // Calls in flight may be sent again, because the record of the runner's answer may not be replicated.
      expect(figures.sentAgain).toBeLessThanOrEqual(2 * IN_FLIGHT);
    },
  );

  onlyInLongRun(() => {
    test("a webhook that one gateway could not replicate gets no 202 from another gateway until all replicas have it", async () => {
      const [one = "", other = ""] = world.gateways;
      const delivery = "first at one";
      const { port } = await redis.primary(world.prefixes.of(callIdOf(delivery)));
      const info = await at(port, (client) => client.info("replication"));
      const replicaPort = Number(/^slave0:ip=[^,]*,port=(\d+)/m.exec(info)?.[1]);
      const replica = redis.servers.find((server) => server.port === replicaPort);
      const deliver = async (gateway: string) => (await world.deliver(gateway, delivery))?.status;
      // The previous failover may have left a replica that is not connected yet.
      await eventually(
        "all replicas are there",
        async () => (await world.deliver(one, "before"))?.status === 202,
      );
      process.kill(replica!.pid, "SIGSTOP");
      try {
        expect(await deliver(one)).toBe(503);
        expect(await deliver(other)).toBe(503);
      } finally {
        process.kill(replica!.pid, "SIGCONT");
      }
      await eventually("it is accepted", async () => (await deliver(other)) === 202);
    });
  });
}
