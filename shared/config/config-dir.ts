import { readdirSync } from "node:fs";
import { join } from "node:path";
import { parse, TomlError } from "smol-toml";
import type { z } from "zod";
import { AppError, messageOf } from "../errors/app-error.ts";
import { didYouMean } from "../text/near.ts";
import { isAbsent, readText } from "../text/read-text.ts";
import { checkTables, type Reading } from "./check-tables.ts";
import { messageFor, type Problem, textOf, withoutMisspelt } from "./problem.ts";
import { type LineOf, linesIn } from "./toml-lines.ts";

const KNOWN_FILES = [
  ...["postern.toml", "webhooks.toml", "x402.toml", "pricing.toml", "job_pricing.toml"],
  "operator.toml",
];

type File<Schema extends z.ZodType> = Omit<Reading<Schema>, "table"> & {
  name: string;
  /** If the file is absent, the result is `undefined` instead of a file without keys. */
  optional?: boolean;
  /** The unchecked table without what its reader does not need. */
  narrowed?: (table: unknown) => unknown;
};

export type ConfigDir = ReturnType<typeof openConfigDir>;

/** The failure of a service that cannot start because its file is absent. */
export function withoutFile(dir: string, name: string, service: string): AppError {
  const reason = `${dir}/${name}: there is no such file; without it the ${service} is off`;
  return new AppError("start.config_invalid", { reason });
}

/** Reads the files of a configuration directory and collects all that is wrong with them. */
export function openConfigDir(dir: string) {
  const problems = problemsOfDir(dir);

  const texts = new Map<string, string>();
  const tables = new Map<string, unknown>();
  const lines = new Map<string, LineOf>();
  const check = checkTables(messageFor);

  function lineOf(name: string): LineOf {
    const known = lines.get(name) ?? linesIn(texts.get(name) ?? "");
    lines.set(name, known);
    return known;
  }

  function report(name: string, found: readonly Problem[]): void {
    if (found.length === 0) return;
    const lineIn = lineOf(name);
    const placed = withoutMisspelt(found).map((each) => ({
      line: lineIn(each.path),
      text: textWithOther(each, lineIn),
    }));
    placed.sort((one, other) => (one.line ?? 0) - (other.line ?? 0));
    const told = placed.map(({ line, text }) => `${placeOf(join(dir, name), line)}: ${text}`);
    problems.push(...new Set(told));

    function textWithOther(each: Problem, lineIn: LineOf): string {
      const other = each.other && lineIn(each.other);
      return textOf(each, tables.get(name)) + (other === undefined ? "" : ` (line ${other})`);
    }
  }

  function table(name: string): unknown {
    if (tables.has(name)) return tables.get(name);
    try {
      const path = join(dir, name);
      const text = isAbsent(path) ? "" : readText(path);
      texts.set(name, text);
      tables.set(name, parseTable(text));
    } catch (error) {
      tables.set(name, undefined);
      problems.push(tomlProblem(join(dir, name), error));
    }
    return tables.get(name);
  }

  return {
    dir,

    /** True too if the file cannot be read: that is then a problem of it. */
    has: (name: string): boolean => !isAbsent(join(dir, name)),

    report,

    /** Reports what a rule between files finds, as a problem of the file `name`. */
    reportBetween<Tables extends readonly unknown[]>(
      name: string,
      names: { readonly [File in keyof Tables]: string },
      rule: (...tables: Tables) => readonly Problem[],
    ): void {
      report(name, check.between(names, rule));
    },

    /** The unchecked file; `{}` if it is absent. If it cannot be read: undefined, and reported once. */
    table,

    /** The checked file; undefined if it is absent and optional, or if anything in it is wrong. */
    read<Schema extends z.ZodType>({ name, schema, optional, narrowed, problemsIn }: File<Schema>) {
      if (optional && isAbsent(join(dir, name))) return undefined;
      const raw = table(name);
      if (raw === undefined) return undefined;
      const { data, problems } = check.read({
        ...{ name, schema, table: narrowed?.(raw) ?? raw },
        problemsIn: () => problemsIn?.(raw) ?? [],
      });
      report(name, problems);
      return data;
    },

    /** Returns `config` if nothing is wrong; else throws `start.config_invalid`, which lists every problem, one a line. */
    checked<Config>(config: Config | undefined): Config {
      if (problems.length === 0 && config !== undefined) return config;
      throw new AppError("start.config_invalid", { reason: problems.join("\n") });
    },
  };
}

/** Integers too large for a double become bigint, so that the file's own check reports them. */
function parseTable(text: string): unknown {
  return parse(text, { integersAsBigInt: "asNeeded" });
}

function placeOf(path: string, line: number | undefined): string {
  return line === undefined ? path : `${path}:${line}`;
}

function tomlProblem(path: string, error: unknown): string {
  const first = messageOf(error).split("\n")[0];
  return error instanceof TomlError
    ? `${placeOf(path, error.line)}: ${first}`
    : `${path}: ${messageOf(error)}`;
}

function problemsOfDir(dir: string): string[] {
  if (isAbsent(dir)) return [`${dir}: there is no such directory; name another with --config-dir`];
  try {
    return unknownFiles(dir);
  } catch (error) {
    return [`${dir}: cannot be read (${messageOf(error)})`];
  }
}

/**
 * A .toml file that the program would ignore is misspelt, or of a newer version: somebody relies on it either way. Hidden files are those
 * of editors and file systems, such as `.#webhooks.toml` and `._webhooks.toml`.
 */
function unknownFiles(dir: string): string[] {
  const names = readdirSync(dir).filter(
    (name) => name.endsWith(".toml") && !name.startsWith(".") && !KNOWN_FILES.includes(name),
  );
  return names.map((name) => {
    const known = `known: ${KNOWN_FILES.join(", ")}`;
    return `${join(dir, name)}: is not a file of Postern (${known})${didYouMean(name, KNOWN_FILES)}`;
  });
}
