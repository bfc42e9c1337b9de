import { Secret } from "../crypto/secret.ts";
import { keyOf } from "./problem.ts";

const SHORT_SECRET_BYTES = 16;

/** A warning for each secret of a checked file that is short enough to be guessed, or hardly what was meant. */
export function secretWarnings(file: string, checked: unknown): string[] {
  return secretsIn(checked, []).flatMap(({ secret, path }) =>
    warningsOf(secret, path).map((warning) => `${file}: ${keyOf(path, checked)}: ${warning}`),
  );
}

type Found = { secret: Secret; path: readonly PropertyKey[] };

function secretsIn(value: unknown, path: readonly PropertyKey[]): Found[] {
  if (value instanceof Secret) return [{ secret: value, path }];
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    secretsIn(inner, [...path, Array.isArray(value) ? Number(key) : key]),
  );
}

/** URLs are secret only for the key they may hold. */
function warningsOf(secret: Secret, path: readonly PropertyKey[]): string[] {
  const bytes = secret.bytes().length;
  if (bytes >= SHORT_SECRET_BYTES || /(?:^|_)url$/.test(String(path.at(-1)))) return [];
  return [`the secret has only ${bytes} bytes; 32 random ones are hard to guess`];
}
