import { eventually } from "../../shared/dev/wait.ts";
import { Secret } from "../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../shared/platform/log/logger.ts";
import { connectForRequests, type Redis } from "../../shared/redis/connect.ts";

export type Probe = {
  readonly redis: Redis;
  /** Bytes that Redis has allocated for its data. */
  usedBytes(): Promise<number>;
  /** Bytes of Redis' append-only file. */
  aofBytes(): Promise<number>;
  /** Number of scripts that Redis has run. */
  scripts(): Promise<number>;
  close(): void;
};

/**
 * Opens a connection of the bench to Redis, and resolves once Redis is reached. By default it is configured like a gateway's,
 * which gives up soon if Redis is slow.
 */
export async function openProbe(url: string, connect = connectForRequests): Promise<Probe> {
  const redis = connect({ url: new Secret(url) }, silentLogger);
  await eventually("Redis is reached", () => redis.status === "ready");
  const find = async (section: string, pattern: RegExp) =>
    Number(pattern.exec(await redis.info(section))?.[1]);
  return {
    redis,
    usedBytes: () => find("memory", /^used_memory:(\d+)/m),
    aofBytes: () => find("persistence", /^aof_current_size:(\d+)/m),
    scripts: () => find("commandstats", /^cmdstat_evalsha:calls=(\d+)/m),
    close: () => redis.disconnect(),
  };
}
