import { callbackSigningKey, publicKeyOf } from "../../platform/crypto/callback-keys.ts";
import type { Secret } from "../../platform/crypto/secret.ts";
import { lastSeen, noteSeen } from "../../redis/last-seen.ts";
import type { Partition } from "../../redis/partition.ts";

/*
 * Producers sign callbacks, and gateways tell everybody the public keys. Gateways do not know the secret: producers write the public keys
 * to Redis, again and again, and a key that no producer signs with any more is forgotten.
 */

const PUBLISH_EVERY_MS = 60_000;
const KEPT_MS = 600_000;

/** Tells of the public keys that belong to these secrets until it is stopped. If Redis cannot be used, the next time makes it good. */
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

/** Reads the public keys that producers sign with now, in base64url, the newest first. */
export async function readCallbackKeys({ redis, keys }: Partition): Promise<string[]> {
  const seen = await lastSeen(redis, keys.callbackKeys, KEPT_MS);
  return seen.map(({ member }) => member).reverse();
}
