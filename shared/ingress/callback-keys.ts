import type { IncomingMessage, ServerResponse } from "node:http";
import { CALLBACK_KEYS_PATH } from "../call/callback.ts";
import { sendBody } from "../http/answer.ts";
import type { Route } from "../http/router.ts";
import { unlessRedis } from "../redis/failure.ts";
import type { Partition } from "../redis/partition.ts";
import { readCallbackKeys } from "../telemetry/processes/callback-keys.ts";

/**
 * Minimum time between two reads of the keys from Redis. Any client may request the keys. Without this limit, clients
 * could make Redis busy.
 */
const QUERY_EVERY_MS = 5000;
const MAX_AGE_SECS = 300;

/**
 * Creates the GET route of the public keys with which receivers verify the signatures of callbacks. They are a JSON Web
 * Key Set (RFC 7517, RFC 8037).
 */
export function callbackKeysRoute(partition: Partition): Route {
  let lastQuery: { at: number; keys: Promise<string[]> } | undefined;

  async function keysNow(): Promise<string[]> {
    const now = performance.now();
    if (lastQuery === undefined || now - lastQuery.at > QUERY_EVERY_MS)
      lastQuery = { at: now, keys: readCallbackKeys(partition) };
    const own = lastQuery;
    const keys = await own.keys.catch(() => []);
    if (keys.length === 0 && lastQuery === own) lastQuery = undefined; // not cached: a producer may add a key at any time
    return own.keys;
  }

  async function serve(_req: IncomingMessage, res: ServerResponse): Promise<void> {
    const keys = await keysNow().catch((error: unknown) => {
      throw unlessRedis(error);
    });
    const jwks = keys.map((x) => ({ kty: "OKP", crv: "Ed25519", x, use: "sig", alg: "EdDSA" }));
    const caching = keys.length > 0 ? { "Cache-Control": `public, max-age=${MAX_AGE_SECS}` } : {};
    sendBody(res, "application/jwk-set+json; charset=utf-8", JSON.stringify({ keys: jwks }), caching);
  }

  return { method: "GET", path: CALLBACK_KEYS_PATH, serve };
}
