import { type PrivateRedis, type RedisServerOptions, startRedis } from "./start-redis.ts";

export type ProvidedRedis = {
  readonly url: string;
  /** Absent where the Redis is REDIS_URL's, which is nobody's to stop. */
  readonly private?: PrivateRedis;
};

/** The Redis of REDIS_URL if that is set, else a private one. */
export async function provideRedis(options: RedisServerOptions): Promise<ProvidedRedis> {
  const url = options.env["REDIS_URL"];
  if (url) return { url };
  const redis = await startRedis(options);
  return { url: redis.url, private: redis };
}
