import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse, TomlError } from "smol-toml";
import type { z } from "zod";
import { Secret } from "../crypto/secret.ts";
import { AppError, messageOf } from "../errors/app-error.ts";
import { type PosternToml, posternToml } from "./postern-toml.ts";
import type { Env } from "./secret-value.ts";
import { repeatedPaths, type WebhooksToml, webhooksToml } from "./webhooks-toml.ts";

export type Config = {
  postern: PosternToml;
  /** Absent without the file: the gateway is off. */
  webhooks: WebhooksToml | undefined;
  /** What is allowed and unwise, one line each. */
  warnings: readonly string[];
};

const KNOWN_FILES = ["postern.toml", "webhooks.toml", "x402.toml", "pricing.toml", "job_pricing.toml"];
const SHORT_SECRET_BYTES = 16;

/**
 * Reads the configuration directory. Throws `start.config_invalid` whose message lists every problem of every file, one a
 * line, as `file: key: what is wrong`.
 */
export function loadConfig({ dir, env }: { dir: string; env: Env }): Config {
  const problems: string[] = [];
  if (!existsSync(dir)) problems.push(`${dir}: there is no such directory; name another with --config-dir`);
  else problems.push(...strangers(dir));
  const postern = readFile({ path: join(dir, "postern.toml"), schema: posternToml(env), problems });
  const webhooks = readFile({
    path: join(dir, "webhooks.toml"),
    schema: webhooksToml(env),
    problems,
    optional: true,
    alsoAsk: repeatedPaths,
  });
  if (problems.length > 0 || postern === undefined) {
    throw new AppError("start.config_invalid", { reason: problems.join("\n") });
  }
  return {
    postern,
    webhooks,
    warnings: [...shortSecrets("postern.toml", postern), ...shortSecrets("webhooks.toml", webhooks)],
  };
}

type File<Schema extends z.ZodType> = {
  path: string;
  schema: Schema;
  problems: string[];
  optional?: boolean;
  /** What the schema would not say once it has found other problems. */
  alsoAsk?: (table: unknown) => { path: PropertyKey[]; message: string }[];
};

function readFile<Schema extends z.ZodType>(file: File<Schema>): z.output<Schema> | undefined {
  const { path, schema, problems } = file;
  if (!existsSync(path) && file.optional) return undefined;
  const table = readTable(path, problems);
  if (table === undefined) return undefined;
  const result = schema.safeParse(table);
  const asked = file.alsoAsk?.(table) ?? [];
  const found = [...(result.error?.issues.flatMap(describe) ?? []), ...asked.map(lineOf)];
  problems.push(...found.map((line) => `${path}: ${line}`));
  return result.data;
}

function readTable(path: string, problems: string[]): unknown {
  try {
    return existsSync(path) ? parse(readFileSync(path, "utf8")) : {};
  } catch (error) {
    problems.push(
      `${path}: ${error instanceof TomlError ? `line ${error.line}: ${firstLine(error)}` : messageOf(error)}`,
    );
    return undefined;
  }
}

function firstLine(error: Error): string {
  return error.message.split("\n")[0] ?? error.message;
}

/** A file the program would ignore is a typing error or belongs to a newer version; either way somebody relies on it. */
function strangers(dir: string): string[] {
  const names = readdirSync(dir).filter((name) => name.endsWith(".toml") && !KNOWN_FILES.includes(name));
  return names.map(
    (name) => `${join(dir, name)}: is not a file of Postern (known: ${KNOWN_FILES.join(", ")})`,
  );
}

function describe(issue: z.core.$ZodIssue): string[] {
  if (issue.code !== "unrecognized_keys") return [lineOf(issue)];
  return issue.keys.map((key) => lineOf({ path: [...issue.path, key], message: "unknown key" }));
}

function lineOf({ path, message }: { path: readonly PropertyKey[]; message: string }): string {
  return `${path.length === 0 ? "(the file)" : keyOf(path)}: ${message}`;
}

function keyOf(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, part) => {
    if (typeof part === "number") return `${text}[${part}]`;
    return text === "" ? String(part) : `${text}.${String(part)}`;
  }, "");
}

function shortSecrets(file: string, value: unknown, path: readonly PropertyKey[] = []): string[] {
  if (value instanceof Secret) {
    const bytes = value.bytes().length;
    if (bytes >= SHORT_SECRET_BYTES || path.at(-1) === "url") return [];
    return [`${file}: ${keyOf(path)}: the secret has only ${bytes} bytes; 32 random ones are hard to guess`];
  }
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => {
    const part = Array.isArray(value) ? Number(key) : key;
    return shortSecrets(file, inner, [...path, part]);
  });
}
