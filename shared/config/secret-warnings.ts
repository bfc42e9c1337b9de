import { Secret } from "../platform/crypto/secret.ts";
import { keyOf } from "./problem.ts";

const SHORT_SECRET_BYTES = 16;

/** Warns about each secret of a validated file that is so short that it could be guessed, or that looks like a mistake. */
export function secretWarnings(file: string, checked: unknown): string[] {
  return secretsIn(checked, []).flatMap(({ secret, path }) =>
    warningsOf(secret, path).map((warning) => `${file}: ${keyOf(path, checked)}: ${warning}`),
  );
}

type PlacedSecret = { secret: Secret; path: readonly PropertyKey[] };

function secretsIn(value: unknown, path: readonly PropertyKey[]): PlacedSecret[] {
  if (value instanceof Secret) return [{ secret: value, path }];
  if (typeof value !== "object" || value === null) return [];
  if (Array.isArray(value) && value.length === 1 && value[0] instanceof Secret)
    return secretsIn(value[0], path);
  return Object.entries(value).flatMap(([key, inner]) =>
    secretsIn(inner, [...path, Array.isArray(value) ? Number(key) : key]),
  );
}

function warningsOf(secret: Secret, path: readonly PropertyKey[]): string[] {
  const warnings = LIKELY_MISTAKES.filter(({ form }) => form.test(secret.reveal())).map(
    ({ warning }) => warning,
  );
  const bytes = secret.bytes().length;
  // URLs are treated as secret only because they may contain a key. A short one is no problem.
  const isUrl = /(?:^|_)url$/.test(String(path.at(-1)));
  if (bytes < SHORT_SECRET_BYTES && !isUrl)
    warnings.push(`the secret has only ${bytes} bytes; use 32 random bytes`);
  return warnings;
}

/** Forms of a secret that come from mistakes in a file, a variable or its quoting. */
const LIKELY_MISTAKES: readonly { form: RegExp; warning: string }[] = [
  { form: /^\s|\s$/, warning: "the secret begins or ends with white space, which is part of it" },
  {
    form: /^(?!-----BEGIN |\s*\{).*\S\s*[\r\n].*\S/s,
    warning: "the secret has a line break inside, which is part of it",
  },
  { form: /^(["'`]).*\1$/s, warning: "the secret is enclosed in quotes, which are part of it" },
  {
    form: /^\$(?:[A-Za-z_]\w*|\{.*\})$/s,
    warning: "the secret looks like a shell variable, which is not expanded; use env:NAME",
  },
];
