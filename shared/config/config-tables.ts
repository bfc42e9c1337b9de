import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parse, stringify, type TomlTable } from "smol-toml";
import { isAbsent, readText } from "../platform/text/read-text.ts";
import { isTable } from "./fields.ts";

/** The tables of a configuration directory, by file. */
export type ConfigTables = {
  postern?: Table;
  webhooks?: Table;
  x402?: Table;
  pricing?: Table;
  job_pricing?: Table;
  operator?: Table;
};
export type Table = TomlTable;

/** Writes a configuration directory for `loadConfig`. Only its owner may read it, because it contains secrets. */
export function writeConfig(dir: string, { postern = {}, ...optional }: ConfigTables): void {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const write = (name: string, table: Table) =>
    writeFileSync(join(dir, name), toToml(table), { mode: 0o600 });
  write("postern.toml", postern);
  for (const [name, table] of Object.entries(optional)) write(`${name}.toml`, table);
}

/** Reads the unvalidated tables of a configuration directory, to write a changed copy. */
export function readTables(dir: string): ConfigTables {
  const read = (name: string): TomlTable | undefined => {
    const path = join(dir, `${name}.toml`);
    return isAbsent(path) ? undefined : readToml(path);
  };
  const files = ["postern", "webhooks", "x402", "pricing", "operator"] as const;
  const found = files.map((file) => [file, withWholeSecretPaths(read(file), dir)] as const);
  const prices = read("job_pricing");
  return {
    ...Object.fromEntries(found.filter(([, table]) => table !== undefined)),
    ...(prices && { job_pricing: withWholePaths(prices, dir) }),
  };
}

/** Reads a TOML file without validation. */
export function readToml(path: string): Table {
  return parse(readText(path));
}

export function toToml(table: Table): string {
  return `${stringify(table)}\n`;
}

/**
 * Makes the paths of secrets absolute, so that a copy of the table can be in another directory. A text that
 * begins with `file:` but names no existing file is not changed.
 */
function withWholeSecretPaths(value: unknown, dir: string): unknown {
  if (typeof value === "string") {
    const path = /^file:(.+)$/s.exec(value)?.[1];
    return path !== undefined && existsSync(resolve(dir, path)) ? `file:${resolve(dir, path)}` : value;
  }
  if (Array.isArray(value)) return value.map((item) => withWholeSecretPaths(item, dir));
  if (!isTable(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, withWholeSecretPaths(item, dir)]),
  );
}

/** Makes the paths of schemas and examples absolute, so that a copy of the table can be in another directory. */
function withWholePaths(prices: TomlTable, dir: string): TomlTable {
  const copy = structuredClone(prices);
  const jobs = Object.values(copy).filter(isTable).flatMap(Object.values).filter(isTable);
  for (const job of jobs as TomlTable[])
    for (const key of ["input_schema", "input_example", "output_schema", "output_example"])
      if (typeof job[key] === "string") job[key] = resolve(dir, job[key]);
  return copy;
}
