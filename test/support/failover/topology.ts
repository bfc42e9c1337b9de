import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Redis } from "ioredis";
import type { TomlTable } from "smol-toml";
import { spawnChild } from "../../../shared/dev/child.ts";
import { freePort, onFreePort } from "../../../shared/dev/free-port.ts";
import { findRedisServer, type PrivateRedis, startRedis } from "../../../shared/dev/redis.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { PREFIX } from "../../../shared/redis/keys.ts";
import { canConnect } from "../http.ts";
import { tempDir } from "../temp-dir.ts";

/** Several Redis servers. One of them is the primary of the deployment's keys. */
export type Topology = {
  /** Keys of `[redis]` with which a process finds the primary. */
  readonly place: TomlTable;
  readonly servers: readonly PrivateRedis[];
  /** Returns the primary of `key`. */
  primary(key?: string): Promise<PrivateRedis>;
  /** Makes a replica the primary, as an operator does before maintenance. Resolves once it is. */
  failOver(key?: string): Promise<void>;
  /** Resolves once all replicas of the primary of `key` are attached and have its data. */
  untilSynced(key?: string): Promise<void>;
  /** Resolves once the server at this port is a replica. */
  untilReplica(port: number): Promise<void>;
  /** Resolves once a server at another port is the primary of `key`. */
  untilTakenOver(port: number, key?: string): Promise<void>;
  end(): Promise<void>;
};

export const MASTER_NAME = "calls";
const HOST = "127.0.0.1";

/** Opens a connection that fails at once instead of retrying. */
function dial(port: number): Redis {
  const redis = new Redis(port, { retryStrategy: () => null, maxRetriesPerRequest: 0, commandTimeout: 2000 });
  redis.on("error", () => {});
  return redis;
}

/** Runs commands at one server, over a separate connection. */
export async function at<Result>(port: number, work: (redis: Redis) => Promise<Result>): Promise<Result> {
  const redis = dial(port);
  try {
    return await work(redis);
  } finally {
    redis.disconnect();
  }
}

const start = (args: readonly string[] = []) =>
  startRedis({ env: process.env, dir: tempDir(), args: ["--repl-diskless-sync-delay", "0", ...args] });

async function untilReplica(port: number): Promise<void> {
  await eventually(`${port} is a replica`, () =>
    at(port, async (redis) => (await redis.info("replication")).includes("role:slave")),
  );
}

async function untilTakenOver(
  redis: Topology,
  port: number,
  key?: string,
  deadlineMs?: number,
): Promise<void> {
  const isTakenOver = async (): Promise<boolean> => {
    const next = await redis.primary(key).catch(() => undefined);
    return next !== undefined && next.port !== port;
  };
  await eventually("another server is the primary", isTakenOver, deadlineMs);
}

/**
 * Time after which a failover is requested again. On a busy machine, servers may give up a failover after some seconds.
 */
const FAILOVER_MS = 10_000;

/** Requests a failover again and again until it has happened. */
async function failOver(
  redis: Topology,
  key: string | undefined,
  ask: (primaryPort: number) => Promise<unknown>,
): Promise<void> {
  const { port } = await redis.primary(key);
  await eventually("a failover succeeds", async () => {
    await eventually("a replica can take over", () => ask(port));
    await untilTakenOver(redis, port, key, FAILOVER_MS);
    return true;
  });
}

async function untilSynced(redis: Topology, replicas: number, key?: string): Promise<void> {
  await eventually("all replicas have synced", async () => {
    const { port } = await redis.primary(key);
    const info = await at(port, (client) => client.info("replication"));
    return [...info.matchAll(/^slave\d+:.*,state=online,/gm)].length === replicas;
  });
}

/** Returns the running server at this port. */
function serverAt(servers: readonly PrivateRedis[], port: number): PrivateRedis {
  const found = servers.find((server) => server.port === port);
  if (found === undefined) throw new Error(`no server has the port ${port}`);
  return found;
}

const hasSynced = ({ port }: PrivateRedis) =>
  at(port, async (redis) => (await redis.info("replication")).includes("master_link_status:up"));

/** Starts a sentinel that watches this primary. It ends with this process. */
export async function startSentinel(primaryPort: number, lines: readonly string[] = []) {
  const dir = tempDir();
  return onFreePort(async (port) => {
    const file = join(dir, "sentinel.conf");
    const config = [
      ...[`port ${port}`, `bind ${HOST}`, `dir ${dir}`],
      `sentinel monitor ${MASTER_NAME} ${HOST} ${primaryPort} 2`,
      `sentinel down-after-milliseconds ${MASTER_NAME} 1000`,
      `sentinel failover-timeout ${MASTER_NAME} 3000`,
      ...lines,
    ];
    writeFileSync(file, `${config.join("\n")}\n`);
    const command = findRedisServer(process.env);
    const child = spawnChild({ command, args: [file, "--sentinel"], env: process.env, cwd: dir });
    await eventually(`the sentinel on port ${port} listens`, () => canConnect(port));
    return { port, address: `${HOST}:${port}`, kill: child.kill };
  });
}

/** Starts a primary, two replicas and three sentinels. `args` are for each Redis server. */
export async function startSentinels(args: readonly string[] = []): Promise<Topology> {
  const first = await start(args);
  const replicaOf = ["--replicaof", HOST, String(first.port)];
  const replicas = await Promise.all([1, 2].map(() => start([...args, ...replicaOf])));
  const servers = [first, ...replicas];
  const sentinels = await Promise.all([1, 2, 3].map(() => startSentinel(first.port)));
  const [one] = sentinels as [(typeof sentinels)[number]];
  const known = (text: string) => text.includes("slaves=2,sentinels=3");
  await eventually("all sentinels know one another and the replicas", async () => {
    const infos = await Promise.all(sentinels.map(({ port }) => at(port, (redis) => redis.info("sentinel"))));
    return infos.every(known);
  });
  const command = (...words: [string, ...string[]]) =>
    at(one.port, (redis) => redis.call("SENTINEL", ...words));
  const topology: Topology = {
    place: { sentinels: sentinels.map(({ address }) => address), master_name: MASTER_NAME },
    servers,
    untilReplica,
    untilTakenOver: (port, key) => untilTakenOver(topology, port, key),
    async primary() {
      const [, port] = (await command("GET-MASTER-ADDR-BY-NAME", MASTER_NAME)) as [string, string];
      return serverAt(servers, Number(port));
    },
    failOver: (key) => failOver(topology, key, () => command("FAILOVER", MASTER_NAME)),
    untilSynced: (key) => untilSynced(topology, replicas.length, key),
    async end() {
      await Promise.all([...sentinels, ...servers].map(({ kill }) => kill("SIGKILL")));
    },
  };
  return topology;
}

/**
 * Starts three primaries with a third of the slots each, and optionally a replica for each. `args` are for
 * each node.
 */
export async function startCluster(
  args: readonly string[] = [],
  { hasReplicas = true } = {},
): Promise<Topology> {
  const count = hasReplicas ? 2 * PRIMARIES : PRIMARIES;
  const nodes = await Promise.all(Array.from({ length: count }, () => startNode(args)));
  await joinNodes(nodes);
  const ports = nodes.map(({ server }) => server.port);
  const servers = nodes.map(({ server }) => server);
  const primaryPort = async (key: string): Promise<number> => {
    for (const port of ports) {
      const found = await at(port, (redis) => ownerOf(redis, key)).catch(() => undefined);
      if (found !== undefined) return found;
    }
    throw new Error("no node tells who has the slot");
  };
  const topology: Topology = {
    place: { nodes: ports.map((port) => `${HOST}:${port}`) },
    servers,
    untilReplica,
    untilTakenOver: (port, key) => untilTakenOver(topology, port, key),
    primary: async (key = PREFIX) => serverAt(servers, await primaryPort(key)),
    failOver: (key) =>
      failOver(topology, key, async (port) => {
        const info = await at(port, (redis) => redis.info("replication"));
        const [, replica] = /^slave0:ip=[^,]*,port=(\d+),state=online/m.exec(info) ?? [];
        return at(Number(replica), (redis) => redis.cluster("FAILOVER"));
      }),
    untilSynced: (key) => untilSynced(topology, 1, key),
    async end() {
      await Promise.all(servers.map((server) => server.kill("SIGKILL")));
    },
  };
  return topology;
}

type Node = { server: PrivateRedis; busPort: number };

async function startNode(args: readonly string[]): Promise<Node> {
  const busPort = await freePort();
  const server = await start([
    ...args,
    ...["--cluster-enabled", "yes", "--cluster-port", String(busPort), "--cluster-node-timeout", "1500"],
    ...["--cluster-require-full-coverage", "no"],
  ]);
  return { server, busPort };
}

const SLOTS = 16_384;
const PRIMARIES = 3;

async function joinNodes(nodes: readonly Node[]): Promise<void> {
  const [first, ...others] = nodes as [Node, ...Node[]];
  await at(first.server.port, (redis) =>
    Promise.all(
      others.map(({ server, busPort }) => redis.call("CLUSTER", "MEET", HOST, server.port, busPort)),
    ),
  );
  const primaries = nodes.slice(0, PRIMARIES);
  await Promise.all(
    primaries.map(({ server }, i) => {
      const [begin, end] = [i, i + 1].map((part) => Math.floor((part * SLOTS) / PRIMARIES)) as [
        number,
        number,
      ];
      return at(server.port, (redis) => redis.cluster("ADDSLOTSRANGE", begin, end - 1));
    }),
  );
  const isJoined = ({ server }: Node) =>
    at(server.port, async (redis) => {
      const info = await redis.cluster("INFO");
      return info.includes("cluster_state:ok") && info.includes(`cluster_known_nodes:${nodes.length}`);
    });
  const untilAll = (what: string, holds: (node: Node) => Promise<boolean>, of = nodes) =>
    eventually(what, async () => (await Promise.all(of.map(holds))).every(Boolean));
  await untilAll("all nodes know one another", isJoined);
  await Promise.all(
    nodes.slice(PRIMARIES).map(async ({ server }, i) => {
      const of = (primaries[i] as Node).server.port;
      const id = await at(of, (redis) => redis.call("CLUSTER", "MYID"));
      await at(server.port, (redis) => redis.cluster("REPLICATE", String(id)));
    }),
  );
  await untilAll("the replicas have synced", ({ server }) => hasSynced(server), nodes.slice(PRIMARIES));
  await untilAll("the cluster is well", isJoined);
}

/** Returns the port of the node with the slot of this key. */
async function ownerOf(redis: Redis, key: string): Promise<number | undefined> {
  const slot = await redis.cluster("KEYSLOT", key);
  const ranges = await redis.cluster("SLOTS");
  return ranges.find(([first, last]) => first <= slot && slot <= last)?.[2]?.[1];
}
