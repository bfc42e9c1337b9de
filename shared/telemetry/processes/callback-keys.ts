import { callbackSigningKey, publicKeyOf } from "../../platform/crypto/callback-keys.ts";
import type { Secret } from "../../platform/crypto/secret.ts";
import { lastSeen, noteSeen } from "../../redis/last-seen.ts";
import type { Partition } from "../../redis/partition.ts";

/*
 * Producers sign callbacks, and gateways publish the public keys. Gateways do not know the secrets, so producers write
 * the public keys to Redis periodically. A key expires once no producer signs with it.
 */

const PUBLISH_EVERY_MS = 60_000;
const KEPT_MS = 600_000;

/** Publishes the public keys of these secrets once a minute until stopped. Publishes nothing while Redis cannot be used. */
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

/** Reads the public keys of the secrets with which producers currently sign, in base64url, newest first. */
export async function readCallbackKeys({ redis, keys }: Partition): Promise<string[]> {
  const seen = await lastSeen(redis, keys.callbackKeys, KEPT_MS);
  return seen.map(({ member }) => member).reverse();
}
