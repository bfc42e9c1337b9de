import type { CheckedTables } from "../config/checked-tables.ts";
import type { PosternToml } from "../config/postern-toml.ts";
import type { PosternConfig } from "../config/read-postern.ts";
import { type RedisTable, toDeploymentOptions, toRedisTarget } from "../config/redis-toml.ts";
import type { Env } from "../config/secrets.ts";
import { type Logger, silentLogger } from "../platform/log/logger.ts";
import type { Clock } from "../platform/time/clock.ts";
import type { Redis } from "../redis/connect.ts";
import { Deployment } from "../redis/deployment.ts";
import { prefixOf } from "../redis/keys.ts";
import { type Partition, partitionOf } from "../redis/partition.ts";
import type { ProcessKind } from "../telemetry/processes/process.ts";
import { noReports, openReports, type Reports } from "../telemetry/processes/report.ts";
import { type Need, openConnection } from "./redis-option.ts";

/** @internal A kind of part, and how its configuration is read and its Redis found, in its process and in another program. */
export type PartKind<Config extends PosternConfig> = {
  kind: ProcessKind;
  need: Need;
  /** Reads the part's tables. */
  read(tables: CheckedTables, env: Env): Config | undefined;
  /** Table of the part's Redis, if that is not `redis`. */
  redisOf?(postern: PosternToml): RedisTable;
  /** Prefix of the part's keys, if that is not the deployment's. */
  prefixOf?(name: string): string;
};

/** @internal The configuration, connection and log that every part is composed of. */
export type Host = {
  postern: PosternToml;
  /** Its connection fails fast if the part answers requests, and waits if the part does work. The part does not close it. */
  partition: Partition;
  log: Logger;
  /** In place of the process's clock and of Redis', as it is known here. */
  clock?: Clock;
  reports?: Pick<Reports, "watchRunners">;
  /** The deployment whose data Redis must hold. Without it, any data is used. */
  deployment?: Deployment;
};

/** @internal A part's configuration without absent tables: a part does not start without those that it needs. */
export type Tables<Config> = { [Key in keyof Config]: NonNullable<Config[Key]> };

type Given = { redis?: Redis | undefined; log: Logger; serviceId?: number | undefined };

/** @internal Logs the warnings about a configuration, connects to its Redis, and begins the reports. */
export function openHost<Config extends PosternConfig>(
  { kind, need, redisOf = ({ redis }) => redis, prefixOf: ownPrefixOf = prefixOf }: PartKind<Config>,
  checked: Config,
  { serviceId, ...given }: Given,
) {
  const { warnings, ...config } = checked;
  for (const warning of warnings) given.log.warn("config.warning", { warning });
  const { postern } = checked;
  const table = redisOf(postern);
  const connect = (prefix: string, log: Logger) =>
    openConnection(given.redis, toRedisTarget(table, prefix), need, log);
  const [prefix, ownPrefix] = [prefixOf(postern.redis.name), ownPrefixOf(postern.redis.name)];
  const own = connect(ownPrefix, given.log);
  // Nothing reads the reports in a Redis that only this part has.
  const isShared = table === postern.redis;
  // In a Cluster the deployment's keys may be on another node than the part's.
  const isSplit = isShared && table.nodes !== undefined && ownPrefix !== prefix;
  const deployment = isSplit ? connect(prefix, silentLogger) : own;
  const partition = partitionOf(deployment.redis, prefix);
  const ofDeployment = new Deployment(toDeploymentOptions(postern.redis), given.log);
  const reports = isShared
    ? openReports({ kind, postern, config, serviceId, partition, deployment: ofDeployment, log: given.log })
    : noReports(given.log);
  return {
    ...(checked as Tables<Config>),
    /** Its keys begin with the part's own prefix. */
    redis: own.redis,
    partition,
    reports,
    deployment: ofDeployment,
    log: reports.log,
    /** Sends the last report, and closes the connection if the part made it. */
    async end(): Promise<void> {
      await reports.stop();
      for (const connection of new Set([own, deployment])) connection.close();
    },
  };
}
