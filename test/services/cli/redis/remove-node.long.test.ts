import { setTimeout as delay } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { posternToml } from "../../../../shared/config/postern-toml.ts";
import { toRedisTarget } from "../../../../shared/config/redis-toml.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { silentLogger } from "../../../../shared/platform/log/logger.ts";
import { createAudit } from "../../../../shared/redis/audit/audit.ts";
import { createReadAudit } from "../../../../shared/redis/audit/read.ts";
import { connectForRequests } from "../../../../shared/redis/connect.ts";
import { PREFIX } from "../../../../shared/redis/keys.ts";
import { Partitioned, partitionOf } from "../../../../shared/redis/partition.ts";
import { whenReady } from "../../../../shared/redis/ready.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { jsonLines, problemOf, usePostern } from "../../../fixtures/postern.ts";
import { loginOf } from "../../../fixtures/redis.ts";
import { useCluster, useSentinels } from "../../../fixtures/redis-topology.ts";
import { at, type Topology } from "../../../support/failover/topology.ts";

const addressOf = ({ port }: { port: number }) => `127.0.0.1:${port}`;

/** Runs the command, and makes proven writes with all replicas of a topology. */
function useReplicated(redis: Topology) {
  const postern = usePostern();
  const ends = useEnds();
  const table = () => ({ ...redis.place, ...loginOf("operator"), durability: "replicated", min_replicas: 1 });
  return {
    async remove(node: string, args: readonly string[] = ["--yes"]) {
      postern.configure({ postern: { redis: table() } });
      return postern.run(["redis", "remove-node", node, "-o", "json", ...args]);
    },
    async open() {
      const { redis: parsed } = posternToml({ env: {} }).parse({ redis: table() });
      const connection = connectForRequests(toRedisTarget(parsed, PREFIX), silentLogger);
      ends.defer(() => connection.disconnect());
      await whenReady(connection, 5000);
      const partition = partitionOf(connection, PREFIX);
      const audit = createAudit(partition, silentLogger);
      const write = () =>
        audit({ at: Date.now(), action: "pause", job: "1/1", by: "a test", selection: "by key" }).then(
          () => "proven",
          ({ message }: Error) => message,
        );
      const lines = async () =>
        (await createReadAudit(new Partitioned([partition]))({}, { limit: 10 })).entries;
      return { write, lines };
    },
  };
}

const untilWrites = (write: () => Promise<string>, outcome: RegExp | string) =>
  eventually(`a write says ${outcome}`, async () => ((await write()).match(outcome) ? true : undefined));

describe("with Sentinel", () => {
  const redis = useSentinels();
  const { remove, open } = useReplicated(redis);

  test("a stopped replica is removed while processes run, but a running one is not", async () => {
    const { sentinels } = redis.place as { sentinels: string[] };
    // The sentinels check for replicas each second instead of every 10 s.
    for (const address of sentinels)
      await at(Number(address.split(":")[1]), (sentinel) =>
        sentinel.call("SENTINEL", "DEBUG", "info-period", "1000"),
      );
    const { write, lines } = await open();
    await untilWrites(write, "proven");
    const primary = await redis.primary();
    const [gone, other] = redis.servers.filter(({ port }) => port !== primary.port) as [
      (typeof redis.servers)[number],
      (typeof redis.servers)[number],
    ];
    for (const [server, why] of [
      [primary, "is the primary"],
      [gone, "is attached to the primary"],
    ] as const) {
      const refused = await remove(addressOf(server));
      expect([refused.code, problemOf(refused)["detail"]]).toEqual([1, expect.stringContaining(why)]);
    }
    expect(problemOf(await remove("127.0.0.1:1"))["detail"]).toMatch(/no sentinel lists 127\.0\.0\.1:1/);

    // The server runs but is not attached. An operator must stop it first.
    await at(gone.port, (client) =>
      client.call("CONFIG", "SET", "masterauth", "wrong", "masteruser", "nobody"),
    );
    await at(primary.port, (client) => client.call("CLIENT", "KILL", "TYPE", "replica"));
    await eventually("it is detached", async () => {
      const info = await at(primary.port, (client) => client.info("replication"));
      return info.includes("connected_slaves:1") && !info.includes(`port=${gone.port}`);
    });
    expect(problemOf(await remove(addressOf(gone)))["detail"]).toContain("answers: stop it first");
    await at(primary.port, (client) => client.call("ACL", "LOG", "RESET"));

    await gone.kill("SIGKILL");
    await untilWrites(write, `postern redis remove-node ${addressOf(gone)}`);
    const removed = await remove(addressOf(gone));
    expect([removed.code, removed.stderr]).toEqual([0, ""]);
    expect(jsonLines(removed)).toEqual([
      {
        node: addressOf(gone),
        forgotten_by: sentinels,
        unreached: [],
        replicas: [addressOf(other)],
        audited: true,
      },
    ]);
    await untilWrites(write, "proven");
    expect(await lines()).toContainEqual(
      expect.objectContaining({
        fields: expect.objectContaining({ action: "remove_node", node: addressOf(gone) }),
      }),
    );
    // The sentinels can still do a failover.
    await redis.failOver();
    expect((await redis.primary()).port).toBe(other.port);
    await untilWrites(write, "proven");
  });
});

describe("with a Cluster", () => {
  const redis = useCluster();
  const { remove, open } = useReplicated(redis);

  test("a stopped replica is removed at every node, and calls are accepted once there is another replica", async () => {
    const { write } = await open();
    await untilWrites(write, "proven");
    const primary = await redis.primary();
    const info = await at(primary.port, (client) => client.info("replication"));
    const replicaPort = Number(/^slave0:ip=[^,]*,port=(\d+)/m.exec(info)?.[1]);
    const gone = redis.servers.find(({ port }) => port === replicaPort)!;
    const otherPrimary = await redis.primary("{postern-runner}");
    expect(problemOf(await remove(addressOf(otherPrimary)))["detail"]).toMatch(/answers|is the primary/);

    await gone.kill("SIGKILL");
    await untilWrites(write, `postern redis remove-node ${addressOf(gone)}`);
    const removed = await remove(addressOf(gone));
    expect(removed.code).toBe(0);
    expect(removed.stderr).toMatch(/fewer replicas than min_replicas, which is 1/);
    expect(jsonLines(removed)).toMatchObject([{ unreached: [], replicas: [], audited: false }]);
    await untilWrites(write, "has 0 replicas, but min_replicas is 1");

    // The nodes must not tell one another about it again.
    await delay(2000);
    for (const { port } of redis.servers.filter((server) => server !== gone)) {
      const nodes = String(await at(port, (client) => client.call("CLUSTER", "NODES")));
      expect(nodes).not.toContain(`:${gone.port}@`);
    }
    const spare = redis.servers.slice(3).find((server) => server !== gone)!;
    const id = await at(primary.port, (client) => client.call("CLUSTER", "MYID"));
    await eventually("another replica serves it", () =>
      at(spare.port, (client) => client.cluster("REPLICATE", String(id))).catch(() => undefined),
    );
    await untilWrites(write, "proven");
  });
});
