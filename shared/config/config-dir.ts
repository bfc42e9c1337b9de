import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse, TomlError } from "smol-toml";
import type { z } from "zod";
import { AppError, messageOf } from "../errors/app-error.ts";

const KNOWN_FILES = ["postern.toml", "webhooks.toml", "x402.toml", "pricing.toml", "job_pricing.toml"];

/** What is wrong, and at which key. */
export type Problem = { path: readonly PropertyKey[]; message: string };

export type File<Schema extends z.ZodType> = {
  name: string;
  schema: Schema;
  /** An absent file is `undefined` instead of a file without keys. */
  optional?: boolean;
  /** What the schema would not say once it has found other problems. */
  alsoAsk?: (table: unknown) => readonly Problem[];
};

export type ConfigDir = ReturnType<typeof openConfigDir>;

/** Why a service does not start whose file is not there. */
export function withoutFile(dir: string, name: string, service: string): AppError {
  const reason = `${dir}/${name}: there is no such file; without it the ${service} is off`;
  return new AppError("start.config_invalid", { reason });
}

/** Reads the files of a configuration directory and gathers all that is wrong with them. */
export function openConfigDir(dir: string) {
  const problems = existsSync(dir)
    ? strangers(dir)
    : [`${dir}: there is no such directory; name another with --config-dir`];

  function report(name: string, found: readonly Problem[]): void {
    problems.push(...found.map((problem) => `${join(dir, name)}: ${lineOf(problem)}`));
  }

  const tables = new Map<string, unknown>();

  function table(name: string): unknown {
    if (tables.has(name)) return tables.get(name);
    try {
      tables.set(name, readTable(join(dir, name)));
    } catch (error) {
      tables.set(name, undefined);
      problems.push(`${join(dir, name)}: ${tomlProblem(error)}`);
    }
    return tables.get(name);
  }

  return {
    has: (name: string): boolean => existsSync(join(dir, name)),

    report,

    /** The file as it is written, an absent one as `{}`; undefined, and reported once, where it cannot be read. */
    table,

    /** The file, checked; undefined where it is absent and optional, and where anything in it is wrong. */
    read<Schema extends z.ZodType>({ name, schema, optional, alsoAsk }: File<Schema>) {
      if (optional && !existsSync(join(dir, name))) return undefined;
      const raw = table(name);
      if (raw === undefined) return undefined;
      const result = schema.safeParse(raw);
      report(name, [...(result.error?.issues.flatMap(problemsOf) ?? []), ...(alsoAsk?.(raw) ?? [])]);
      return result.data;
    },

    /** `config` once nothing is wrong; else throws `start.config_invalid`, which lists every problem, one a line. */
    checked<Config>(config: Config | undefined): Config {
      if (problems.length === 0 && config !== undefined) return config;
      throw new AppError("start.config_invalid", { reason: problems.join("\n") });
    },
  };
}

/** Integers too large for a double come as bigint, so that they meet the file's own message. */
function readTable(path: string): unknown {
  return existsSync(path) ? parse(readFileSync(path, "utf8"), { integersAsBigInt: "asNeeded" }) : {};
}

function tomlProblem(error: unknown): string {
  const first = messageOf(error).split("\n")[0];
  return error instanceof TomlError ? `line ${error.line}: ${first}` : messageOf(error);
}

/** A file the program would ignore is a typing error or belongs to a newer version; either way somebody relies on it. */
function strangers(dir: string): string[] {
  const names = readdirSync(dir).filter((name) => name.endsWith(".toml") && !KNOWN_FILES.includes(name));
  return names.map(
    (name) => `${join(dir, name)}: is not a file of Postern (known: ${KNOWN_FILES.join(", ")})`,
  );
}

function problemsOf(issue: z.core.$ZodIssue): Problem[] {
  if (issue.code !== "unrecognized_keys") return [issue];
  return issue.keys.map((key) => ({ path: [...issue.path, key], message: "unknown key" }));
}

function lineOf({ path, message }: Problem): string {
  return `${path.length === 0 ? "(the file)" : keyOf(path)}: ${message}`;
}

/** A key as it is written in problems and warnings: `endpoints[0].path`. */
export function keyOf(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, part) => {
    if (typeof part === "number") return `${text}[${part}]`;
    return text === "" ? String(part) : `${text}.${String(part)}`;
  }, "");
}
