import { callbackSigningKey, publicKeyOf } from "../crypto/callback-keys.ts";
import type { Secret } from "../crypto/secret.ts";
import type { Partition } from "../redis/partition.ts";
import { EVEN_IF_FULL, NOW, script } from "../redis/script.ts";

/*
 * Producers sign callbacks, and gateways tell everybody the public keys. Gateways do not know the secret: producers write the public keys
 * to Redis, again and again, and a key that no producer signs with any more is forgotten.
 */

const PUBLISH_EVERY_MS = 60_000;
const KEPT_MS = 600_000;

/** KEYS callback keys. ARGV ms, then public keys. */
const PUBLISH = `${EVEN_IF_FULL}${NOW}
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], now, ARGV[i]) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1])`;

/** KEYS callback keys. ARGV ms. Answers the keys, the newest first. */
const READ = `${NOW}
return redis.call('ZREVRANGEBYSCORE', KEYS[1], '+inf', now - ARGV[1])`;

/** Tells of the public keys that belong to these secrets until it is stopped. If Redis cannot be written, the next time makes it good. */
export function publishCallbackKeys({ redis, keys }: Partition, secrets: readonly Secret[]): () => void {
  const publish = script(redis, PUBLISH);
  const publicKeys = secrets.map((secret) => publicKeyOf(callbackSigningKey(secret)));
  const tell = (): void => {
    if (redis.status === "ready") publish([keys.callbackKeys], [KEPT_MS, ...publicKeys]).catch(() => {});
  };
  redis.on("ready", tell);
  tell();
  const timer = setInterval(tell, PUBLISH_EVERY_MS);
  return () => {
    clearInterval(timer);
    redis.off("ready", tell);
  };
}

/** Reads the public keys that producers sign with now, in base64url. */
export function createReadCallbackKeys({ redis, keys }: Partition): () => Promise<string[]> {
  const read = script(redis, READ);
  return async () => (await read([keys.callbackKeys], [KEPT_MS])) as string[];
}
