import { createHash } from "node:crypto";
import { Secret } from "../../platform/crypto/secret.ts";

/**
 * Twelve hexadecimal digits that are the same for processes with the same effective configuration, whatever the order of its keys.
 * Secrets are left out: a digest would let whoever sees it try guesses.
 */
export function configHash(config: unknown): string {
  return createHash("sha256").update(canonical(config)).digest("hex").slice(0, 12);
}

function canonical(value: unknown): string {
  if (value instanceof Secret) return "secret";
  if (value instanceof Map) return canonical([...value]);
  if (value instanceof Set) return canonical([...value]);
  if (typeof value === "bigint") return `${value}n`;
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return String(JSON.stringify(value));
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join(",")}}`;
}
