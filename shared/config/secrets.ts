import { existsSync, realpathSync } from "node:fs";
import { isAbsolute, resolve } from "node:path";
import { z } from "zod";
import { Secret } from "../platform/crypto/secret.ts";
import { messageOf } from "../platform/errors/app-error.ts";
import { lostCharacter, readText } from "../platform/text/read-text.ts";
import { headerName } from "../webhook-auth/fields.ts";

export type Env = Readonly<Record<string, string | undefined>>;

/**
 * Source of secrets: environment variables, and the directory at which relative paths begin. Without `dir`, as for
 * command lines and options in code, relative paths begin at the working directory.
 */
export type SecretSource = { env: Env; dir?: string | undefined };

/** Placeholders for secrets in the example files. They are refused, so that no deployment runs with them. */
export const PLACEHOLDERS = [
  "replace-this-github-secret",
  "replace-this-bearer-token",
  "replace-this-password",
  "replace-this-api-key",
  "replace-this-token",
  "replace-this-hmac-secret",
  "replace-this-signing-secret",
  "replace-this-verify-token",
  "replace-this-quote-secret",
  "replace-this-facilitator-credential",
  "replace-this-rpc-url",
  "replace-this-viewer-token",
  "replace-this-operator-token",
] as const;

/** A secret: literal, `env:VAR` or `file:/path`. One line break at the end of a variable or a file is removed. */
export function secretValue(from: SecretSource) {
  return z
    .unknown()
    .transform((value, context) => toSecret(value, from, (message) => context.addIssue(message)))
    .meta({ writtenAs: z.string() });
}

/** One secret or several. All of them are active, so that one can be rotated without a gap. */
export function secretValues(from: SecretSource) {
  const values = z.unknown().transform((value, context) => {
    if (!Array.isArray(value)) return [toSecret(value, from, (message) => context.addIssue(message))];
    if (value.length === 0) context.addIssue("must list at least one secret");
    return value.map((item, index) =>
      toSecret(item, from, (message) => context.addIssue({ code: "custom", path: [index], message })),
    );
  });
  return values.meta({ writtenAs: z.union([z.string(), z.array(z.string()).min(1)]) });
}

function toSecret(value: unknown, from: SecretSource, report: (message: string) => void): Secret {
  const found = typeof value === "string" ? resolved(value, from) : { problem: missing(value) };
  if (typeof found === "string") return new Secret(found);
  report(found.problem);
  return z.NEVER;
}

function missing(value: unknown): string {
  return value === undefined ? "is missing" : "must be a string: the secret, env:VAR or file:/path";
}

type Resolved = string | { problem: string };

function resolved(text: string, from: SecretSource): Resolved {
  const value = read(text, from);
  if (typeof value !== "string") return value;
  if (value === "") return { problem: "is empty" };
  const lost = lostCharacter(value);
  if (lost !== undefined) return { problem: lost };
  if ((PLACEHOLDERS as readonly string[]).includes(value)) {
    return { problem: "must not be the placeholder of the example file: set your own value" };
  }
  return value;
}

function read(text: string, { env, dir = "." }: SecretSource): Resolved {
  if (text.startsWith("env:")) {
    const name = text.slice("env:".length);
    return (
      withoutLineBreak(env[name]) ?? { problem: `names the environment variable ${name}, which is not set` }
    );
  }
  if (text.startsWith("file:")) return readSecretFile(text.slice("file:".length), dir);
  const word = /^(?:env|file):/i.exec(text)?.[0].toLowerCase();
  return word === undefined ? text : { problem: `must start with ${word} in lower case` };
}

/** Removes an invisible line break, which programs often write at the end of a variable or a file. */
function withoutLineBreak<Text extends string | undefined>(text: Text): Text {
  return text?.replace(/\r?\n$/, "") as Text;
}

function readSecretFile(path: string, dir: string): Resolved {
  const place = resolve(dir, path);
  const elsewhere = otherPlace(path, place);
  if (elsewhere !== undefined && existsSync(place))
    return {
      problem: `names two files, ${place} and ${elsewhere}; relative paths start at the configuration directory: delete the file in the working directory, or set an absolute path`,
    };
  try {
    return withoutLineBreak(readText(place));
  } catch (error) {
    const hint =
      elsewhere === undefined
        ? ""
        : `; relative paths start at the configuration directory, so ${elsewhere} is not read`;
    return { problem: `names a file that ${messageOf(error)}${hint}` };
  }
}

/**
 * Resolves a relative path from the working directory, because the user may have meant that file. Returns undefined if
 * there is no such file, or if it is the file at `place`.
 */
function otherPlace(path: string, place: string): string | undefined {
  const other = resolve(path);
  if (isAbsolute(path) || !existsSync(other)) return undefined;
  return existsSync(place) && realpathSync(place) === realpathSync(other) ? undefined : other;
}

/** Headers that the gateway sets in each of its requests (RFC 9110, sections 7 and 8). */
const OWN_HEADERS = ["connection", "content-length", "content-type", "host", "transfer-encoding"];

/** Headers, by lower-case name, for requests to another service. A header may hold a credential. */
export function secretHeaders(from: SecretSource) {
  const value = secretValue(from).refine(
    (secret) => /^[!-~]+(?: [!-~]+)*$/.test(secret.reveal()),
    "must be visible ASCII, because it becomes a header value",
  );
  return z
    .record(z.string(), value)
    .default({})
    .superRefine((headers, context) => {
      const names = Object.keys(headers).map((name) => name.toLowerCase());
      Object.keys(headers).forEach((name, index) => {
        const isRepeated = names.indexOf(name.toLowerCase()) < index;
        const problem = headerNameProblem(name) ?? (isRepeated ? "is listed twice" : undefined);
        if (problem !== undefined) context.addIssue({ code: "custom", path: [name], message: problem });
      });
    })
    .transform((headers) => lowerCased(headers));
}

/** Returns the reason why a header of this name cannot hold a credential; undefined if it can. */
export function headerNameProblem(name: string): string | undefined {
  if (!headerName.safeParse(name).success) return "must be a header name (RFC 9110)";
  return OWN_HEADERS.includes(name.toLowerCase()) ? "must not be set: the gateway sets it" : undefined;
}

function lowerCased<Value>(headers: Readonly<Record<string, Value>>): Readonly<Record<string, Value>> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}
