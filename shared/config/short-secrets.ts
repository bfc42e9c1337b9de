import { Secret } from "../crypto/secret.ts";
import { keyOf } from "./config-dir.ts";

const SHORT_SECRET_BYTES = 16;

/** A warning for every secret of a file that is short enough to be guessed. URLs are secret for what they may hold. */
export function shortSecrets(file: string, value: unknown, path: readonly PropertyKey[] = []): string[] {
  if (value instanceof Secret) {
    const bytes = value.bytes().length;
    if (bytes >= SHORT_SECRET_BYTES || /(?:^|_)url$/.test(String(path.at(-1)))) return [];
    return [`${file}: ${keyOf(path)}: the secret has only ${bytes} bytes; 32 random ones are hard to guess`];
  }
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const part = Array.isArray(value) ? Number(key) : key;
    return shortSecrets(file, inner, [...path, part]);
  });
}
