import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parse, stringify, type TomlTable } from "smol-toml";
import { isAbsent, readText } from "../text/read-text.ts";
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

/** Writes a configuration directory for `loadConfig`; only its owner may read it, since it holds secrets. */
export function writeConfig(dir: string, { postern = {}, ...optional }: ConfigTables): void {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const write = (name: string, table: Table) =>
    writeFileSync(join(dir, name), toToml(table), { mode: 0o600 });
  write("postern.toml", postern);
  for (const [name, table] of Object.entries(optional)) write(`${name}.toml`, table);
}

/** Reads the unchecked tables of a configuration directory, to write a changed copy of it. */
export function readTables(dir: string): ConfigTables {
  const read = (name: string): TomlTable | undefined => {
    const path = join(dir, name);
    return isAbsent(path) ? undefined : readToml(path);
  };
  const [postern, webhooks] = [read("postern.toml"), read("webhooks.toml")];
  const [x402, pricing] = [read("x402.toml"), read("pricing.toml")];
  const [prices, operator] = [read("job_pricing.toml"), read("operator.toml")];
  const whole = (table: TomlTable) => withWholeSecretPaths(table, dir) as TomlTable;
  return {
    ...(postern && { postern: whole(postern) }),
    ...(webhooks && { webhooks: whole(webhooks) }),
    ...(x402 && { x402: whole(x402) }),
    ...(pricing && { pricing: whole(pricing) }),
    ...(operator && { operator: whole(operator) }),
    ...(prices && { job_pricing: withWholePaths(prices, dir) }),
  };
}

/** The unchecked table of a TOML file. */
export function readToml(path: string): Table {
  return parse(readText(path));
}

export function toToml(table: Table): string {
  return `${stringify(table)}\n`;
}

/** The copy is written elsewhere, and the files of secrets stay where they are. */
function withWholeSecretPaths(value: unknown, dir: string): unknown {
  if (typeof value === "string") {
    const path = /^file:(.+)$/s.exec(value)?.[1];
    return path === undefined ? value : `file:${resolve(dir, path)}`;
  }
  if (Array.isArray(value)) return value.map((item) => withWholeSecretPaths(item, dir));
  if (!isTable(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, withWholeSecretPaths(item, dir)]),
  );
}

/** The copy is written elsewhere, and the files that a job's table names stay where they are. */
function withWholePaths(prices: TomlTable, dir: string): TomlTable {
  const copy = structuredClone(prices);
  const jobs = Object.values(copy).filter(isTable).flatMap(Object.values).filter(isTable);
  for (const job of jobs as TomlTable[])
    for (const key of ["input_schema", "input_example"])
      if (typeof job[key] === "string") job[key] = resolve(dir, job[key]);
  return copy;
}
