import { describe, expect, test } from "vitest";
import { prefixOf, runnerPrefixOf } from "../../shared/redis/keys.ts";
import { usePostern } from "../fixtures/postern.ts";
import { useCluster, useSentinels } from "../fixtures/redis-topology.ts";
import type { Topology } from "../support/failover/topology.ts";
import { startDeployment } from "./deployment.ts";

/** Key prefixes whose node fails over. In a Cluster the runner's keys may be on another node. */
const TOPOLOGIES: [string, () => Topology, string[]][] = [
  ["Sentinel", useSentinels, [prefixOf("postern")]],
  ["a Cluster", useCluster, [prefixOf("postern"), runnerPrefixOf("postern")]],
];

/**
 * Ways in which another server becomes the primary. If the old primary still runs, the test waits until it is a
 * replica. Until then, writes over connections to it would be lost.
 */
const FAILOVERS: Readonly<Record<string, (redis: Topology, key: string) => Promise<void>>> = {
  async killed(redis, key) {
    const old = await redis.primary(key);
    await old.kill("SIGKILL");
    await redis.untilTakenOver(old.port, key);
    await old.restart();
  },
  async "exchanged by an operator"(redis, key) {
    const { port } = await redis.primary(key);
    await redis.failOver(key);
    await redis.untilReplica(port);
  },
  async stopped(redis, key) {
    const old = await redis.primary(key);
    process.kill(old.pid, "SIGSTOP");
    await redis.untilTakenOver(old.port, key);
    process.kill(old.pid, "SIGCONT");
    await redis.untilReplica(old.port);
  },
};

describe.concurrent.each(TOPOLOGIES)("with %s", (_, use, keys) => {
  const redis = use();
  const postern = usePostern();
  const ways = Object.entries(FAILOVERS).flatMap(([how, failOver]) =>
    keys.map((key) => [how, key, failOver] as const),
  );
  const rounds = [...ways, ...ways];

  test("every process works, finds the new primary after a failover, and warns once that a failover can lose data", {
    timeout: 900_000,
  }, async () => {
    const deployment = await startDeployment(postern, redis.place);
    await deployment.works("before");
    expect(await deployment.reported()).toEqual(["operator", "producer", "runner", "webhooks"]);
    for (const [how, key, failOver] of rounds) {
      const begun = performance.now();
      await failOver(redis, key);
      await deployment.works(`${how} at ${begun}`);
      await deployment.isFollowed(deployment.lines.length);
      console.log(`${how}, ${key}: ${Math.round(performance.now() - begun)} ms`);
    }
    for (const kind of ["webhooks", "runner"] as const)
      expect(deployment.processes[kind].events("redis.failover_unproven")).toHaveLength(1);
  });
});
