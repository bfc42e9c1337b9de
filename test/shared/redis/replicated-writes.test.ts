import { expect, test } from "vitest";
import { posternToml } from "../../../shared/config/postern-toml.ts";
import { toRedisTarget } from "../../../shared/config/redis-toml.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { createMetrics } from "../../../shared/platform/metrics/metrics.ts";
import { connectForRequests, type Redis } from "../../../shared/redis/connect.ts";
import { defineScript } from "../../../shared/redis/define-script.ts";
import { DurableRedis, registerUsable } from "../../../shared/redis/durable.ts";
import { failureOf } from "../../../shared/redis/failure.ts";
import { createClaimLayout } from "../../../shared/redis/layout.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { whenReady } from "../../../shared/redis/ready.ts";
import { text } from "../../../shared/redis/reply.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { startRedisProxy } from "../../fixtures/redis-proxy.ts";
import { useSentinels } from "../../fixtures/redis-topology.ts";
import { at, MASTER_NAME } from "../../support/failover/topology.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { recordingLog } from "../../support/recording-log.ts";

const redis = useSentinels();
const ends = useEnds();
const PREFIX = "{proofs}";

const SET = defineScript({
  source:
    "if redis.call('EXISTS', KEYS.one) == 0 then redis.call('SET', KEYS.one, ARGV.value) end return redis.call('GET', KEYS.one)",
  keys: "one",
  args: "value",
  proof: "needed",
  reply: text,
});

const tableOf = (durability: object) =>
  posternToml({ env: {} }).parse({ redis: { ...redis.place, ...durability } }).redis;

/** Opens a connection whose writes wait for the confirmation of all replicas. */
async function open(minReplicas = 2, more: object = {}) {
  const log = recordingLog();
  const table = tableOf({ durability: "replicated", min_replicas: minReplicas, ...more });
  const connection = connectForRequests(toRedisTarget(table, PREFIX), log);
  ends.defer(() => connection.disconnect());
  await whenReady(connection, 5000);
  return { connection, log, set: toSet(connection) };
}

function toSet(connection: Redis) {
  const set = SET.on(connection);
  return (name: string, value = "x") => set({ one: `${PREFIX}:${name}` }, { value });
}

const replicas = async () => {
  const { port } = await redis.primary();
  return redis.servers.filter((server) => server.port !== port);
};

test("a write resolves once all replicas have it, even with a script that Redis does not know yet", async () => {
  const { set } = await open();
  const answers = await Promise.all(Array.from({ length: 60 }, (_, i) => set(`many:${i}`, String(i))));
  expect(answers).toEqual(Array.from({ length: 60 }, (_, i) => String(i)));
  for (const { port } of await replicas())
    expect(await at(port, (replica) => replica.mget(`${PREFIX}:many:0`, `${PREFIX}:many:59`))).toEqual([
      "0",
      "59",
    ]);
});

test("while a replica is stopped, the outcome of a write is unknown, even to another process that finds it written", async () => {
  const { connection, log, set } = await open();
  const durable = new DurableRedis({ redis: connection, mode: "replicated", log });
  ends.defer(() => durable.stop());
  await durable.firstCheck;
  await set("before");
  const metrics = createMetrics();
  registerUsable(metrics, () => [durable]);
  const counted = async () =>
    [...(await metrics.text()).matchAll(/^postern_redis_replicas\{.*state="(\w+)"\} (\d)$/gm)].map(
      ([, state, count]) => `${state} ${count}`,
    );
  expect(await counted()).toEqual(["promotable 2", "attached 2", "confirmed 2"]);
  const other = await open();
  await other.set("before");
  const [replica] = await replicas();
  process.kill(replica!.pid, "SIGSTOP");
  try {
    await expect(set("stopped")).rejects.toMatchObject({ code: "queue.outcome_unknown" });
    expect(await connection.get(`${PREFIX}:stopped`)).toBe("x");
    expect(await counted()).toContain("confirmed 1");
    // The other process finds the value written, so its script writes nothing.
    await expect(other.set("stopped")).rejects.toMatchObject({ code: "queue.outcome_unknown" });
  } finally {
    process.kill(replica!.pid, "SIGCONT");
  }
  await eventually("it is proven", () => set("stopped").catch(() => undefined));
});

test("a connection that breaks between a script and WAIT leaves the outcome unknown", async () => {
  const { port } = await redis.primary();
  const proxy = await startRedisProxy(`redis://127.0.0.1:${port}`);
  ends.defer(() => proxy.close());
  const { set } = await open(2, { nat_map: { [`127.0.0.1:${port}`]: new URL(proxy.url).host } });
  await expect(eventually("writes are proven", () => set("one").catch(() => undefined))).resolves.toBe("x");
  proxy.onCommand = ([command]) => (command === "WAIT" ? { kind: "lose-command" } : undefined);
  await expect(set("cut")).rejects.toSatisfy((error) => failureOf(error) === "lost");
  expect(await at(port, (client) => client.get(`${PREFIX}:cut`))).toBe("x");
  proxy.onCommand = () => undefined;
  await expect(eventually("it is proven", () => set("cut").catch(() => undefined))).resolves.toBe("x");
});

test("while a replica is gone no write is made, and the reason has a remedy; once the sentinels have forgotten it, writes succeed", async () => {
  const { connection, log, set } = await open();
  const durable = new DurableRedis({ redis: connection, mode: "replicated", log });
  ends.defer(() => durable.stop());
  await durable.firstCheck;
  const smaller = await open(1);
  const [replica] = await replicas();
  await replica!.kill("SIGKILL");
  try {
    const refusal = await eventually("it is missed", () =>
      set("gone").then(
        () => undefined,
        (error: { code: string; message: string }) =>
          error.code === "queue.unavailable" ? error : undefined,
      ),
    );
    expect(refusal.message).toContain(`127.0.0.1:${replica!.port}`);
    expect(refusal.message).toContain(`postern redis remove-node 127.0.0.1:${replica!.port}`);
    await eventually("it is not usable", () => !durable.isUsable);
    expect(() => durable.assertUsable()).toThrow(/is missing/);
    // The sentinels forget the replica. No process is restarted.
    for (const address of redis.place["sentinels"] as string[])
      await at(Number(address.split(":")[1]), (sentinel) => sentinel.call("SENTINEL", "RESET", MASTER_NAME));
    await expect(eventually("writes go on", () => smaller.set("on").catch(() => undefined))).resolves.toBe(
      "x",
    );
    // Each connection checks its replicas once a second.
    await eventually("the other knows it too", () =>
      set("below the floor").then(
        () => undefined,
        ({ message }: Error) => message.includes("has 1 replicas, but min_replicas is 2") || undefined,
      ),
    );
  } finally {
    await replica!.restart();
  }
  const { port } = await redis.primary();
  expect(port).not.toBe(replica!.port);
});

onlyInLongRun(() => {
  test("after a full sync a replica's confirmation does not count before its append-only file is written, and a later rewrite stops nothing", async () => {
    const { set } = await open();
    await eventually("writes are proven", () => set("before").catch(() => undefined));
    const [replica] = await replicas();
    const asReplica = <Result>(work: (client: Redis) => Promise<Result>) => at(replica!.port, work);
    const isRewriting = async () =>
      (await asReplica((client) => client.info("persistence"))).includes("aof_rewrite_in_progress:1");
    const withSlowRewrites = async (begin: (client: Redis) => Promise<unknown>): Promise<void> => {
      await asReplica(async (client) => {
        await client.config("SET", "rdb-key-save-delay", "40000");
        await begin(client);
      });
      await eventually("it rewrites", isRewriting);
    };
    const endRewrite = async (): Promise<void> => {
      await asReplica((client) => client.config("SET", "rdb-key-save-delay", "0"));
      await eventually("the rewrite has ended", async () => !(await isRewriting()));
    };

    await withSlowRewrites((client) => client.bgrewriteaof());
    await expect(set("during an ordinary rewrite")).resolves.toBe("x");
    await endRewrite();

    // The replica gets a history of its own, so that it must make a full sync.
    const { port } = await redis.primary();
    await withSlowRewrites(async (client) => {
      await client.call("REPLICAOF", "NO", "ONE");
      await client.call("SET", "of-another-history", "x");
      await client.call("REPLICAOF", "127.0.0.1", String(port));
    });
    const refusal = await eventually("it is not enough", () =>
      set("after a full sync").then(
        () => undefined,
        ({ message }: Error) => (message.includes("append-only file") ? message : undefined),
      ),
    );
    expect(refusal).toContain(`127.0.0.1:${replica!.port} must first write its append-only file`);
    await endRewrite();
    await eventually("writes are proven again", () => set("written").catch(() => undefined));
  });
});

test("once a process of a deployment is replicated, one with a weaker durability is not ready", async () => {
  const weaker = connectForRequests(toRedisTarget(tableOf({}), PREFIX), silentLogger);
  ends.defer(() => weaker.disconnect());
  await whenReady(weaker, 5000);
  const claimed = createClaimLayout(partitionOf(weaker, PREFIX));
  await claimed();
  const { connection } = await open(1);
  await createClaimLayout(partitionOf(connection, PREFIX))();
  await expect(claimed()).rejects.toThrow(/set durability = "replicated"/);
  const durable = new DurableRedis({ redis: weaker, mode: "strict", checkData: claimed, log: silentLogger });
  ends.defer(() => durable.stop());
  await expect(durable.firstCheck).rejects.toMatchObject({ code: "start.redis_not_durable" });
});
