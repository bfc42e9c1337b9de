import { setTimeout as pause } from "node:timers/promises";
import { composeProducer } from "../../services/producer/producer.ts";
import { createEnqueue } from "../../services/webhooks-gateway/enqueue.ts";
import { writeConfig } from "../../shared/config/config-tables.ts";
import { posternToml } from "../../shared/config/postern-toml.ts";
import type { PrivateRedis } from "../../shared/dev/redis.ts";
import { untilReady } from "../../shared/dev/stack.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { prefixesOf } from "../../shared/part/places.ts";
import { Secret } from "../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../shared/platform/log/logger.ts";
import { connectForWork } from "../../shared/redis/connect.ts";
import { Partitioned, partitionOf } from "../../shared/redis/partition.ts";
import { roundsByTurns, toSide } from "../support/compare.ts";
import { newCall } from "../support/new-call.ts";
import { cpuMsOf } from "../support/proc.ts";
import { openProbe } from "../support/redis-probe.ts";
import type { Setup } from "../support/setup.ts";
import { withShareOfCore } from "../support/share-of-core.ts";
import { table } from "../support/table.ts";
import { inWorkspace, startGateway } from "../support/world.ts";

/**
 * Fraction of a core that each Redis gets. With so little, Redis and not this process is the bottleneck, as it would be on a
 * machine with more cores.
 */
const SHARE = 0.25;

const PLANS: readonly Plan[] = [
  { partitions: 1, masters: 1 },
  { partitions: 2, masters: 1 },
  { partitions: 4, masters: 1 },
  { partitions: 2, masters: 2 },
  { partitions: 4, masters: 2 },
  { partitions: 4, masters: 3 },
  { partitions: 1, masters: 1, share: SHARE },
  { partitions: 2, masters: 2, share: SHARE },
  { partitions: 4, masters: 3, share: SHARE },
];
/** Numbers of partitions and of Redis servers (masters) to measure. `share` limits each Redis to this fraction of a core. */
type Plan = { partitions: number; masters: number; share?: number };

/** Number of calls that are added, and later the number that are injected, at the same time for each partition. */
const IN_FLIGHT = 64;

/**
 * Figures of a round, in which calls are first added and then drained (injected). Each step has its calls per second, and
 * its CPU time per call in microseconds: `Redis` for all Redis servers together, `Own` for this process.
 */
type Round = {
  addsPerSecond: number;
  addRedisUs: number;
  addOwnUs: number;
  drainsPerSecond: number;
  drainRedisUs: number;
  drainOwnUs: number;
};
/** Figures of an idle gateway and producer: commands per second, and CPU use as shares of a core. */
type Idle = {
  partitions: number;
  connections: number;
  commands: number;
  producerCpu: number;
  redisCpu: number;
};

export type PartitionFigures = { plans: readonly (Plan & Round)[]; idle: readonly Idle[]; ratio: number };

/**
 * Measures how fast the gateway's code adds calls, and how fast a producer injects them. The runner is a function in this
 * process that returns at once. HTTP is left out, because on a machine with few cores it would be the bottleneck.
 */
export async function measurePartitions({ quick, rounds }: Setup): Promise<PartitionFigures> {
  const calls = quick ? 1000 : 4000;
  const plans = await inWorkspace([], async ({ startRedis }) => {
    const servers = await Promise.all(
      [0, 1, 2].map(() => startRedis(["--auto-aof-rewrite-percentage", "0"])),
    );
    const worlds = PLANS.map((plan) => openPlan(plan, servers));
    const turns = worlds.map(({ turn }, i) => [String(i), () => turn(calls)]);
    await Promise.all(worlds.map(({ turn }) => turn(IN_FLIGHT))); // so that each Redis knows each script
    const measured = await roundsByTurns<string, Round>(rounds, Object.fromEntries(turns));
    for (const { close } of worlds) close();
    return PLANS.map((plan, i) => ({ ...plan, ...toSide(measured[i] ?? []) }));
  });
  const idle = [];
  for (const partitions of [1, 2, 4]) idle.push(await measureIdle(partitions, quick ? 2 : 10));
  const rateOf = (count: number) =>
    plans.find(({ partitions, share }) => partitions === count && share !== undefined)?.addsPerSecond ??
    Number.NaN;
  return { plans, idle, ratio: rateOf(2) / rateOf(1) };
}

function openPlan({ partitions: count, masters, share }: Plan, servers: readonly PrivateRedis[]) {
  const used = servers.slice(0, masters);
  const name = `bench-${count}-${masters}${share === undefined ? "" : "-held"}`;
  const partitions = new Partitioned(
    prefixesOf(name, count).map((prefix, index) => {
      const url = new Secret(used[index % masters]?.url ?? "");
      return partitionOf(connectForWork({ url }, silentLogger), prefix, { index, count });
    }),
  );
  const enqueues = partitions.map((partition) => createEnqueue(partition));
  const postern = posternToml({ env: {} }).parse({
    redis: { name },
    console: { history_secs: 0 },
    producer: { concurrency: 2 * IN_FLIGHT * count }, // all calls are of one job, which may have half of this
  });

  async function addAll(calls: number): Promise<number> {
    const begun = performance.now();
    let left = calls;
    const add = async () => {
      while (left-- > 0) {
        const call = newCall();
        await enqueues.of(call.id)(call);
      }
    };
    await Promise.all(Array.from({ length: IN_FLIGHT * count }, add));
    return performance.now() - begun;
  }

  async function drainAll(calls: number): Promise<number> {
    const at: number[] = [];
    const inject = async () => {
      at.push(performance.now());
    };
    const producer = composeProducer({ postern, partitions, log: silentLogger, inject });
    await eventually("all calls are injected", () => at.length === calls);
    await producer.close(60_000);
    return (at.at(-1) ?? 0) - (at[0] ?? 0);
  }

  async function turn(calls: number): Promise<Round> {
    const [add, drain] = [await timed(used, calls, addAll), await timed(used, calls, drainAll)];
    return {
      ...{ addsPerSecond: add.perSecond, addRedisUs: add.redisUs, addOwnUs: add.ownUs },
      ...{ drainsPerSecond: drain.perSecond, drainRedisUs: drain.redisUs, drainOwnUs: drain.ownUs },
    };
  }

  const pids = used.map(({ pid }) => pid);
  return {
    turn: (calls: number) =>
      share === undefined ? turn(calls) : withShareOfCore(pids, share, () => turn(calls)),
    close(): void {
      for (const { redis } of partitions.all) redis.disconnect();
    },
  };
}

/** Measures the CPU time and the rate of `work`, which resolves with its own duration in milliseconds. */
async function timed(
  servers: readonly PrivateRedis[],
  calls: number,
  work: (calls: number) => Promise<number>,
): Promise<{ perSecond: number; redisUs: number; ownUs: number }> {
  const ofServers = () => servers.reduce((sum, { pid }) => sum + cpuMsOf(pid), 0);
  const [before, own] = [ofServers(), process.cpuUsage()];
  const ms = await work(calls);
  const { user, system } = process.cpuUsage(own);
  const redisUs = ((ofServers() - before) * 1000) / calls;
  return { perSecond: (calls * 1000) / ms, redisUs, ownUs: (user + system) / calls };
}

/** Measures a gateway and a producer that have nothing to do, as separate processes. All partitions are on one Redis. */
function measureIdle(partitions: number, secs: number): Promise<Idle> {
  return inWorkspace([], async ({ startRedis, stack, configDir }) => {
    const { url, pid } = await startRedis([]);
    const today = new Date().toISOString().slice(0, 10);
    writeConfig(configDir, {
      postern: { redis: { url, partitions, deployment_id: `${today}-bench` } },
      webhooks: { endpoints: [{ path: "/a", job_id: 1, auth: "none" }] },
    });
    const parts = [await startGateway(stack), await stack.start("producer")] as const;
    await Promise.all(parts.map(untilReady));
    const producerPid = parts[1].process.pid;
    const { redis, close } = await openProbe(url);
    const figureOf = async (name: string) =>
      Number(new RegExp(`^${name}:(\\d+)`, "m").exec(await redis.info())?.[1]);
    const look = async () => {
      return {
        commands: await figureOf("total_commands_processed"),
        producer: cpuMsOf(producerPid),
        redis: cpuMsOf(pid),
      };
    };
    const before = await look();
    await pause(secs * 1000);
    const after = await look();
    const connections = (await figureOf("connected_clients")) - 1;
    close();
    return {
      partitions,
      connections,
      commands: (after.commands - before.commands) / secs,
      producerCpu: (after.producer - before.producer) / (secs * 1000),
      redisCpu: (after.redis - before.redis) / (secs * 1000),
    };
  });
}

export function partitionsTable({ plans, idle }: PartitionFigures): string {
  const ofPlans = table(
    ["partitions on masters", "adds/s", "of Redis", "own µs", "drained/s", "of Redis", "own µs"],
    plans.map(({ partitions, masters, share, ...each }) => [
      `${partitions} on ${masters}${share === undefined ? "" : `, each with ${share} of a core`}`,
      ...[each.addsPerSecond, each.addRedisUs, each.addOwnUs],
      ...[each.drainsPerSecond, each.drainRedisUs, each.drainOwnUs],
    ]),
  );
  const ofIdle = table(
    ["idle gateway and producer", "connections", "commands/s", "producer, % of a core", "Redis, %"],
    idle.map(({ partitions, connections, commands, producerCpu, redisCpu }) => [
      `${partitions} partitions`,
      ...[connections, commands, 100 * producerCpu, 100 * redisCpu],
    ]),
  );
  return `${ofPlans}\n\n${ofIdle}`;
}
