import { callbackSigningKey, publicKeyOf } from "../../platform/crypto/callback-keys.ts";
import type { Secret } from "../../platform/crypto/secret.ts";
import { lastSeen, noteSeen } from "../../redis/last-seen.ts";
import type { Partition } from "../../redis/partition.ts";

/*
 * Producers sign callbacks with secrets, and gateways serve the matching public keys to the receivers. Gateways do not
 * have these secrets. So producers write the public keys to Redis once a minute, and gateways read them there. A key
 * expires ten minutes after the last producer that signs with its secret has written it.
 */

const PUBLISH_EVERY_MS = 60_000;
const KEPT_MS = 600_000;

/**
 * Writes the public keys of these secrets to Redis, at once and then every minute until `stop` is called. Writes
 * nothing while Redis is disconnected or `isUsable` returns false.
 */
export function publishCallbackKeys(
  { redis, keys }: Partition,
  secrets: readonly Secret[],
  isUsable: () => boolean,
): { publish: () => void; stop: () => void } {
  const members = secrets.map((secret) => publicKeyOf(callbackSigningKey(secret)));
  const publish = (): void => {
    if (redis.status !== "ready" || !isUsable()) return;
    noteSeen(redis, keys.callbackKeys, { keptMs: KEPT_MS, members }).catch(() => {});
  };
  publish();
  const timer = setInterval(publish, PUBLISH_EVERY_MS);
  return { publish, stop: () => clearInterval(timer) };
}

/**
 * Reads the public keys that producers have written within the last ten minutes, in base64url. The most recently
 * written key is first.
 */
export async function readCallbackKeys({ redis, keys }: Partition): Promise<string[]> {
  const seen = await lastSeen(redis, keys.callbackKeys, KEPT_MS);
  return seen.map(({ member }) => member).reverse();
}
