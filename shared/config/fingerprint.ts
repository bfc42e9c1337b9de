import { createHash } from "node:crypto";
import { Secret } from "../platform/crypto/secret.ts";

/**
 * Returns a short hash that shows whether two processes have the same effective configuration. The order of keys does
 * not matter. Secrets are left out, because they could be guessed from a digest.
 */
export function configHash(config: unknown): string {
  return digest(canonical(config, () => "secret")).slice(0, 12);
}

/** Returns a text that is equal only for equal configurations, secrets included. It must not leave the process. */
export function fingerprintOf(config: unknown): string {
  return digest(canonical(config, (secret) => JSON.stringify(secret.reveal())));
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

function canonical(value: unknown, secretText: (secret: Secret) => string): string {
  const of = (each: unknown): string => canonical(each, secretText);
  if (value instanceof Secret) return secretText(value);
  if (value instanceof Map || value instanceof Set) return of([...value]);
  if (typeof value === "bigint") return `${value}n`;
  if (Array.isArray(value)) return `[${value.map(of).join(",")}]`;
  if (typeof value !== "object" || value === null) return String(JSON.stringify(value));
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${of(member)}`).join(",")}}`;
}
