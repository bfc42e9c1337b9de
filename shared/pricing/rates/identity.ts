import { sha256Hex } from "../../crypto/compare.ts";
import { Secret } from "../../crypto/secret.ts";
import type { RatedToken } from "./rated-token.ts";

/**
 * What replicas, and tokens, have to have in common to share a rate: source, bounds and times. URLs and headers count as a
 * whole, since any part of them may say what is asked for: while a credential is rotated, replicas read for themselves.
 */
export function identityOf(token: RatedToken): string {
  const { rate_per_native_unit, min_rate, max_rate, rate_refresh_secs, max_rate_age_secs } = token;
  const settings = { rate_per_native_unit, min_rate, max_rate, rate_refresh_secs, max_rate_age_secs };
  return sha256Hex(Buffer.from(JSON.stringify(plain(settings)))).slice(0, 32);
}

/** The settings with keys in order, and with the SHA-256 of what may be a credential. */
function plain(value: unknown): unknown {
  if (value instanceof Secret) return sha256Hex(Buffer.from(value.reveal()));
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return entries.map(([name, inner]) => [name, plain(inner)]);
}
