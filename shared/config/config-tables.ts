import { mkdirSync, writeFileSync } from "node:fs";
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
  const whole = (file: keyof typeof SECRETS, table: TomlTable | undefined) =>
    table && { [file]: withWholeSecretPaths(table, dir, SECRETS[file]) };
  return {
    ...whole("postern", postern),
    ...whole("webhooks", webhooks),
    ...whole("x402", x402),
    ...whole("pricing", pricing),
    ...whole("operator", operator),
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

/** The keys of each file that hold secrets. Other text may begin with `file:` as well. */
const SECRETS = {
  postern: /(?:^|\.)(?:secret|redis\.url)$/,
  webhooks: /^endpoints\.(?:secret|verify_token)$/,
  x402: /(?:^|\.)(?:quote_secret|key_id|key_secret|rpc_url|url|(?:facilitator_)?headers\..+)$/,
  pricing: /^key$/,
  operator: /^tokens\.token$/,
};

/** The copy is written elsewhere, and the files of secrets stay where they are. */
function withWholeSecretPaths(value: unknown, dir: string, secrets: RegExp, at = ""): unknown {
  if (typeof value === "string") {
    const path = secrets.test(at) ? /^file:(.+)$/s.exec(value)?.[1] : undefined;
    return path === undefined ? value : `file:${resolve(dir, path)}`;
  }
  if (Array.isArray(value)) return value.map((item) => withWholeSecretPaths(item, dir, secrets, at));
  if (!isTable(value)) return value;
  const within = (key: string) => (at === "" ? key : `${at}.${key}`);
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => [key, withWholeSecretPaths(item, dir, secrets, within(key))]),
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
