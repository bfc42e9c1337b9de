import { callbackSigningKey, publicKeyOf } from "../../platform/crypto/callback-keys.ts";
import type { Secret } from "../../platform/crypto/secret.ts";
import { defineScript } from "../../redis/define-script.ts";
import type { Partition } from "../../redis/partition.ts";
import { list, nothing, text } from "../../redis/reply.ts";
import publishCallbackKeysLua from "./publish-callback-keys.lua";
import readCallbackKeysLua from "./read-callback-keys.lua";

/*
 * Producers sign callbacks, and gateways tell everybody the public keys. Gateways do not know the secret: producers write the public keys
 * to Redis, again and again, and a key that no producer signs with any more is forgotten.
 */

const PUBLISH_EVERY_MS = 60_000;
const KEPT_MS = 600_000;

const PUBLISH = defineScript({
  source: publishCallbackKeysLua,
  keys: "callbackKeys",
  args: "keptMs, ...publicKeys",
  reply: nothing,
});

const READ = defineScript({
  source: readCallbackKeysLua,
  keys: "callbackKeys",
  args: "keptMs",
  reply: list(text),
});

/** Tells of the public keys that belong to these secrets until it is stopped. If Redis cannot be written, the next time makes it good. */
export function publishCallbackKeys({ redis, keys }: Partition, secrets: readonly Secret[]): () => void {
  const publish = PUBLISH.on(redis);
  const publicKeys = secrets.map((secret) => publicKeyOf(callbackSigningKey(secret)));
  const tell = (): void => {
    if (redis.status !== "ready") return;
    publish({ callbackKeys: keys.callbackKeys }, { keptMs: KEPT_MS, publicKeys }).catch(() => {});
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
  const read = READ.on(redis);
  return () => read({ callbackKeys: keys.callbackKeys }, { keptMs: KEPT_MS });
}
