import type { OpsRoutes } from "../http/ops.ts";
import { unlessRedis } from "../redis/failure.ts";
import type { Partition } from "../redis/partition.ts";
import { readCallbackKeys } from "../telemetry/processes/callback-keys.ts";

/** Anybody may ask: Redis is asked once in this time. */
const ASKED_EVERY_MS = 5000;
const MAX_AGE_SECS = 300;

/** Answers with a JSON Web Key Set (RFC 7517, RFC 8037). */
export function createAnswerCallbackKeys(partition: Partition): OpsRoutes {
  let asked: { at: number; keys: Promise<string[]> } | undefined;

  async function keysNow(): Promise<string[]> {
    const now = performance.now();
    if (asked === undefined || now - asked.at > ASKED_EVERY_MS)
      asked = { at: now, keys: readCallbackKeys(partition) };
    const own = asked;
    const keys = await own.keys.catch(() => []);
    if (keys.length === 0 && asked === own) asked = undefined; // a producer may start at any time
    return own.keys;
  }

  return async (_req, res) => {
    const keys = await keysNow().catch((error: unknown) => {
      throw unlessRedis(error);
    });
    const jwks = keys.map((x) => ({ kty: "OKP", crv: "Ed25519", x, use: "sig", alg: "EdDSA" }));
    if (keys.length > 0) res.set("Cache-Control", `public, max-age=${MAX_AGE_SECS}`);
    res.type("application/jwk-set+json").send(JSON.stringify({ keys: jwks }));
  };
}
