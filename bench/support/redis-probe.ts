import { eventually } from "../../shared/dev/wait.ts";
import { Secret } from "../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../shared/platform/log/logger.ts";
import { connectForRequests, type Redis } from "../../shared/redis/connect.ts";

export type Probe = {
  readonly redis: Redis;
  /** Bytes that Redis has allocated for what it holds. */
  usedBytes(): Promise<number>;
  /** Bytes of its append-only file. */
  aofBytes(): Promise<number>;
  /** How many scripts it has run. */
  scripts(): Promise<number>;
  close(): void;
};

/** The bench's own connection, of the kind a gateway has unless said otherwise. */
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
