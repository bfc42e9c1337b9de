import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { parse, TomlError } from "smol-toml";
import { messageOf } from "../platform/errors/app-error.ts";
import { isAbsent, readText } from "../platform/text/read-text.ts";
import { didYouMean } from "../platform/text/similar-words.ts";
import { type CheckedTables, checkTables } from "./checked-tables.ts";
import { messageFor, type Problem, textOf } from "./problem.ts";
import type { Reader } from "./read-postern.ts";
import type { Env } from "./secrets.ts";
import { linesIn } from "./toml-lines.ts";

const KNOWN_FILES = [
  ...["postern.toml", "webhooks.toml", "x402.toml", "pricing.toml", "job_pricing.toml"],
  "operator.toml",
];

/** Whether the directory has at least one configuration file. */
export function hasConfigFiles(dir: string): boolean {
  return KNOWN_FILES.some((name) => existsSync(join(dir, name)));
}

/** Reads and checks some of the files. Adds problems to `files`. */
export type Read<Config> = (files: CheckedTables, env: Env, reader: Reader | undefined) => Config | undefined;
type LoadOptions = { dir: string; env: Env; reader?: Reader | undefined };

/**
 * Reads the files of `read` in a configuration directory. Throws `start.config_invalid`, which lists every problem of
 * these files on its own line, as `file:line: key: what is wrong`.
 */
export function loadConfig<Config>(read: Read<Config>, { dir, env, reader }: LoadOptions): Config {
  const files = openConfigDir(dir);
  return files.checked(read(files, env, reader));
}

/** Opens a configuration directory. Checks its files and collects all problems. */
export function openConfigDir(dir: string): CheckedTables {
  const problems = problemsOfDir(dir);
  const texts = new Map<string, string>();
  const tables = new Map<string, unknown>();

  function table(name: string): unknown {
    if (tables.has(name)) return tables.get(name);
    try {
      const path = join(dir, name);
      const text = isAbsent(path) ? "" : readText(path);
      texts.set(name, text);
      // Integers that are too large for a double become bigint, so that the schema reports them.
      tables.set(name, parse(text, { integersAsBigInt: "asNeeded" }));
    } catch (error) {
      tables.set(name, undefined);
      problems.push(tomlProblem(join(dir, name), error));
    }
    return tables.get(name);
  }

  function linesOf(name: string, found: readonly Problem[]): string[] {
    const lineIn = linesIn(texts.get(name) ?? "");
    const placed = found.map((each) => ({ ...each, line: lineIn(each.path) }));
    placed.sort((one, two) => (one.line ?? 0) - (two.line ?? 0));
    return placed.map(({ line, ...each }) => {
      const other = each.other && lineIn(each.other);
      const ofOther = other === undefined ? "" : ` (line ${other})`;
      return `${placeOf(join(dir, name), line)}: ${textOf(each, tables.get(name))}${ofOther}`;
    });
  }

  // Returns true even for an unreadable file, which `problems` reports.
  const has = (name: string): boolean => !isAbsent(join(dir, name));
  return checkTables({ dir, has, table, problems, messageFor, linesOf });
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
  if (isAbsent(dir))
    return [
      `there is no directory ${dir}: give the right one with --config-dir (postern dev prints its own, in the line "status")`,
    ];
  try {
    return unknownFiles(dir);
  } catch (error) {
    return [`${dir}: cannot be read (${messageOf(error)})`];
  }
}

/**
 * Finds .toml files that the program would ignore, although an operator relies on them: the name is misspelt, or only a
 * newer version knows it. Hidden files such as `.#webhooks.toml` and `._webhooks.toml` belong to editors and file systems.
 */
function unknownFiles(dir: string): string[] {
  const names = readdirSync(dir).filter(
    (name) => name.endsWith(".toml") && !name.startsWith(".") && !KNOWN_FILES.includes(name),
  );
  return names.map((name) => {
    const known = `known: ${KNOWN_FILES.join(", ")}`;
    return `${join(dir, name)}: is not a Postern file (${known})${didYouMean(name, KNOWN_FILES)}`;
  });
}
