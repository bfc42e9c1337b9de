import type { CheckedTables } from "../config/checked-tables.ts";
import type { PosternToml } from "../config/postern-toml.ts";
import type { PosternConfig } from "../config/read-postern.ts";
import { type RedisTable, toControlTable, toDeploymentOptions, toRedisTarget } from "../config/redis-toml.ts";
import type { Env } from "../config/secrets.ts";
import { type Logger, silentLogger } from "../platform/log/logger.ts";
import type { Clock } from "../platform/time/clock.ts";
import type { Redis, RedisTarget } from "../redis/connect.ts";
import { Deployment } from "../redis/deployment.ts";
import { logOf, type Partition, Partitioned, type Partitions, partitionOf } from "../redis/partition.ts";
import type { ProcessKind } from "../telemetry/processes/process.ts";
import { noReports, openReports, type Reports } from "../telemetry/processes/report.ts";
import { placesOf } from "./places.ts";
import { type Need, openConnection } from "./redis-option.ts";

/**
 * @internal A kind of part, such as the payment gateway. It says how to read the part's configuration and find its Redis, both
 * for a process of its own and for another program that contains the part.
 */
export type PartKind<Config extends PosternConfig> = {
  kind: ProcessKind;
  need: Need;
  /** Reads the part's tables. */
  read(tables: CheckedTables, env: Env): Config | undefined;
  /** Whether the part works on calls, which are in all partitions. Other parts use only partition 0. */
  hasCalls?: boolean;
  /** Returns the prefix of the keys that only this part uses. Absent if the part uses only the keys of the deployment. */
  prefixOf?(name: string): string;
  /** Returns the configuration of the Redis that has the part's own keys. Undefined if that is the deployment's Redis. */
  redisOf?(postern: PosternToml): RedisTable | undefined;
};

/** @internal The inputs that every part gets from its process or from the program that contains it. */
export type Host = {
  postern: PosternToml;
  log: Logger;
  /** Replaces the clock of the process and that of Redis, in tests. */
  clock?: Clock;
  reports?: Pick<Reports, "watchRunners">;
};

/**
 * @internal The inputs of a part that works on calls. If the part answers requests, its connections to Redis fail fast. If the
 * part does work, they wait until Redis is available. The part does not close them.
 */
export type CallsHost = Host & {
  partitions: Partitions;
  /** The deployment whose data each partition must hold. If it is absent, any data is accepted. */
  deployments?: Partitioned<Deployment>;
};

/** @internal The inputs of a part that uses only partition 0. */
export type ControlHost = Host & { control: Partition; deployment?: Deployment };

/**
 * @internal A part's configuration in which every table is present. It has this type once the start was refused for each missing
 * table.
 */
export type Tables<Config> = { [Key in keyof Config]: NonNullable<Config[Key]> };

type Given = { redis?: Redis | undefined; log: Logger; serviceId?: number | undefined };

/**
 * @internal Logs the warnings about a configuration, connects to its Redis, and begins the reports of this process in Redis,
 * which the console shows.
 */
export function openHost<Config extends PosternConfig>(
  part: PartKind<Config>,
  checked: Config,
  { serviceId, ...given }: Given,
) {
  const { warnings, ...config } = checked;
  for (const warning of warnings) given.log.warn("config.warning", { warning });
  const { postern } = checked;
  const ownTable = part.redisOf?.(postern);
  const { own, partitions, close } = openRedis(part, postern, given);
  const deployments = partitions.map(
    ({ index }) => new Deployment(toDeploymentOptions(postern.redis, index), given.log, partitions.control),
  );
  // Reports are written only to the deployment's Redis. Nothing reads reports from a Redis that only this part uses.
  const reports =
    ownTable === undefined
      ? openReports({ kind: part.kind, postern, config, serviceId, partitions, deployments, log: given.log })
      : noReports(given.log);
  return {
    ...(checked as Tables<Config>),
    /** Connection to the keys that begin with the part's own prefix. */
    redis: own,
    partitions,
    control: partitions.control,
    reports,
    deployments,
    deployment: deployments.control,
    log: reports.log,
    /** Sends the last report, and closes the connections that the part opened. */
    async end(): Promise<void> {
      await reports.stop();
      close();
    },
  };
}

/**
 * Opens the connections to the part's own keys and to the partitions. If both are on the same server, one connection serves both.
 */
function openRedis<Config extends PosternConfig>(
  { need, hasCalls = false, prefixOf: ownPrefixOf, redisOf }: PartKind<Config>,
  postern: PosternToml,
  { redis: ofHost, log }: Given,
) {
  const connect = (target: RedisTarget, to: Logger) => openConnection(ofHost, target, need, to);
  const ownTable = redisOf?.(postern);
  const ownPrefix = ownPrefixOf?.(postern.redis.name);
  const own =
    ownPrefix === undefined
      ? undefined
      : connect(toRedisTarget(ownTable ?? toControlTable(postern.redis), ownPrefix), log);
  // In a Cluster, the deployment's keys may be on another node than the part's own keys. So they need another connection.
  const isElsewhere = ownTable === undefined && postern.redis.nodes !== undefined;
  const places = placesOf(postern.redis);
  const opened = (hasCalls ? places : places.slice(0, 1)).map(({ target, prefix }, index) => {
    const place = { index, count: places.length };
    const connection =
      own !== undefined && !isElsewhere
        ? own
        : connect(target, own === undefined ? logOf(place, log) : silentLogger);
    return { connection, partition: partitionOf(connection.redis, prefix, place) };
  });
  const partitions = new Partitioned(opened.map(({ partition }) => partition));
  return {
    own: own?.redis ?? partitions.control.redis,
    partitions,
    close(): void {
      own?.close();
      for (const { connection } of opened) connection.close();
    },
  };
}
