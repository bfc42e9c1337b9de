import { readFileSync } from "node:fs";
import { z } from "zod";
import { Secret } from "../crypto/secret.ts";
import { messageOf } from "../errors/app-error.ts";
import { headerName } from "./fields.ts";

export type Env = Readonly<Record<string, string | undefined>>;

/** The values that stand for secrets in the example files. They are refused, so that nobody runs with them. */
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

/** A secret: literal, `env:VAR` or `file:/path`. One line break at the end of a variable or a file is not part of it. */
export function secretValue(env: Env) {
  return z
    .unknown()
    .transform((value, context) => toSecret(value, env, (message) => context.addIssue(message)))
    .meta({ writtenAs: z.string() });
}

/** One secret or several. Several are all active, so that one can be rotated without a gap. */
export function secretValues(env: Env) {
  const values = z.unknown().transform((value, context) => {
    if (!Array.isArray(value)) return [toSecret(value, env, (message) => context.addIssue(message))];
    if (value.length === 0) context.addIssue("needs at least one secret");
    return value.map((item, index) =>
      toSecret(item, env, (message) => context.addIssue({ code: "custom", path: [index], message })),
    );
  });
  return values.meta({ writtenAs: z.union([z.string(), z.array(z.string()).min(1)]) });
}

function toSecret(value: unknown, env: Env, report: (message: string) => void): Secret {
  const resolved = typeof value === "string" ? resolve(value, env) : { problem: missing(value) };
  if (typeof resolved === "string") return new Secret(resolved);
  report(resolved.problem);
  return z.NEVER;
}

function missing(value: unknown): string {
  return value === undefined ? "is missing" : "must be text: the secret, env:VAR or file:/path";
}

type Resolved = string | { problem: string };

function resolve(text: string, env: Env): Resolved {
  const value = read(text, env);
  if (typeof value !== "string") return value;
  if (value === "") return { problem: "is empty" };
  if ((PLACEHOLDERS as readonly string[]).includes(value)) {
    return { problem: "is the placeholder of the example file; put a secret of your own here" };
  }
  return value;
}

function read(text: string, env: Env): Resolved {
  if (text.startsWith("env:")) {
    const name = text.slice("env:".length);
    return (
      withoutLineBreak(env[name]) ?? { problem: `names the environment variable ${name}, which is not set` }
    );
  }
  if (text.startsWith("file:")) return readSecretFile(text.slice("file:".length));
  const word = /^(?:env|file):/i.exec(text)?.[0].toLowerCase();
  return word === undefined ? text : { problem: `write ${word} in lower case` };
}

/** Programs that write a variable or a file often end it with a line break, which nobody sees. */
function withoutLineBreak<Text extends string | undefined>(text: Text): Text {
  return text?.replace(/\r?\n$/, "") as Text;
}

function readSecretFile(path: string): Resolved {
  try {
    return withoutLineBreak(readFileSync(path, "utf8"));
  } catch (error) {
    return { problem: `names a file that cannot be read (${messageOf(error)})` };
  }
}

/** Headers that every request sets itself (RFC 9110, sections 7 and 8). */
const OWN_HEADERS = ["connection", "content-length", "content-type", "host", "transfer-encoding"];

/** Headers for the requests to another service, such as its credential; by lower-case name. */
export function secretHeaders(env: Env) {
  const value = secretValue(env).refine(
    (secret) => /^[!-~]+(?: [!-~]+)*$/.test(secret.reveal()),
    "must be visible ASCII, since it becomes a header value",
  );
  return z
    .record(z.string(), value)
    .default({})
    .superRefine((headers, context) => {
      const names = Object.keys(headers).map((name) => name.toLowerCase());
      Object.keys(headers).forEach((name, index) => {
        const isRepeated = names.indexOf(name.toLowerCase()) < index;
        const problem = headerNameProblem(name) ?? (isRepeated ? "is there twice" : undefined);
        if (problem !== undefined) context.addIssue({ code: "custom", path: [name], message: problem });
      });
    })
    .transform((headers) => lowerCased(headers));
}

/** Why no credential can be sent in a header of this name; undefined if one can. */
export function headerNameProblem(name: string): string | undefined {
  if (!headerName.safeParse(name).success) return "is not a header name (RFC 9110)";
  return OWN_HEADERS.includes(name.toLowerCase()) ? "is set by the gateway itself" : undefined;
}

function lowerCased<Value>(headers: Readonly<Record<string, Value>>): Readonly<Record<string, Value>> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}
