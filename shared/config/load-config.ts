import {
  bodyBudgetProblems,
  closedReceivers,
  forwardedMetadata,
  tokenlessResults,
  unsentCallbacks,
  waitProblems,
} from "./between-files.ts";
import { unsignedCallbacks } from "./callbacks-toml.ts";
import { type ConfigDir, openConfigDir } from "./config-dir.ts";
import { deliveryProblems } from "./deliverers.ts";
import { isTable } from "./fields.ts";
import { type PosternToml, posternToml } from "./postern-toml.ts";
import { secretWarnings } from "./secret-warnings.ts";
import type { Env } from "./secrets.ts";
import { repeatedPaths, type WebhooksToml, webhooksToml, webhooksWarnings } from "./webhooks-toml.ts";

export type Config = {
  postern: PosternToml;
  /** Absent without the file: the gateway is off. */
  webhooks: WebhooksToml | undefined;
  /** What is allowed and unwise, one line each. */
  warnings: readonly string[];
};

/** Who reads: it gets the secrets that it uses, and needs no other. Without a reader everything is read and checked. */
export type Reader = "gateway" | "pricing" | "producer" | "runner" | "operator" | "command";

export type LoadOptions = { dir: string; env: Env; reader?: Reader | undefined };

/**
 * Reads `postern.toml` and `webhooks.toml`. Throws `start.config_invalid`, whose message lists every problem of these files, one a
 * line, as `file:line: key: what is wrong`. shared/pricing loads the files of the x402 gateway and of the pricing engine: their
 * checks compute prices, and no other process should hold their secrets.
 */
export function loadConfig({ dir, env, reader }: LoadOptions): Config {
  const files = openConfigDir(dir);
  const postern = readPostern(files, env, reader);
  return files.checked(readWebhooks(files, env, postern, reader));
}

/** Reads `postern.toml` alone. */
export function loadPostern({ dir, env, reader }: LoadOptions): Omit<Config, "webhooks"> {
  const files = openConfigDir(dir);
  const postern = readPostern(files, env, reader);
  return files.checked(postern && { postern, warnings: secretWarnings("postern.toml", postern) });
}

/** For a loader of more files, to which `webhooks.toml` is one more only if there is no reader. Problems go to `files`. */
export function readConfig(files: ConfigDir, env: Env, reader: Reader | undefined): Config | undefined {
  const postern = readPostern(files, env, reader);
  if (reader === undefined) return readWebhooks(files, env, postern, reader);
  return postern && { postern, webhooks: undefined, warnings: secretWarnings("postern.toml", postern) };
}

function readPostern(files: ConfigDir, env: Env, reader: Reader | undefined): PosternToml | undefined {
  const name = "postern.toml";
  const narrowed = (table: unknown) => withoutUnused(table, reader);
  const postern = files.read({
    name,
    schema: posternToml({ env, dir: files.dir }),
    narrowed,
    problemsIn: unsignedCallbacks,
  });
  const takesDeliveries = reader === undefined || reader === "gateway";
  if (takesDeliveries) files.reportBetween<[PosternToml]>(name, [name], deliveryProblems);
  return postern;
}

function readWebhooks(
  files: ConfigDir,
  env: Env,
  postern: PosternToml | undefined,
  reader: Reader | undefined,
): Config | undefined {
  const webhooks = files.read({
    name: "webhooks.toml",
    schema: webhooksToml({ env, dir: files.dir }),
    optional: true,
    problemsIn: repeatedPaths,
  });
  reportBetween(files, reader);
  if (postern === undefined) return undefined;
  return {
    postern,
    webhooks,
    warnings: [...secretWarnings("postern.toml", postern), ...(webhooks ? webhooksWarnings(webhooks) : [])],
  };
}

/** Reports keys of `postern.toml` and `webhooks.toml` that contradict each other. */
function reportBetween(files: ConfigDir, reader: Reader | undefined): void {
  const [own, hooks] = ["postern.toml", "webhooks.toml"];
  const readsTokens = reader === undefined || reader === "gateway";
  const rules = [
    forwardedMetadata,
    closedReceivers,
    unsentCallbacks,
    ...(readsTokens ? [tokenlessResults] : []),
    waitProblems,
  ];
  for (const rule of rules) files.reportBetween<[PosternToml, WebhooksToml]>(hooks, [own, hooks], rule);
  files.reportBetween<[PosternToml, WebhooksToml]>(own, [own, hooks], bodyBudgetProblems);
}

/**
 * `postern.toml` without the keys that hold secrets of others than the reader, or are of no use without them. All of them may be absent. A
 * gateway needs the secrets of runners only to take what they deliver.
 */
function withoutUnused(table: unknown, reader: Reader | undefined): unknown {
  if (!isTable(table) || reader === undefined) return table;
  const { runner, runners, results, callbacks } = table;
  const takesDeliveries = reader === "gateway" && isTable(results) && results["deliveries"] === true;
  const needsSecrets = reader === "producer" || takesDeliveries;
  const unused = ["redis", "deliver_to", ...(needsSecrets ? [] : ["secret"])];
  return {
    ...table,
    ...(isTable(runner) && reader !== "runner" && { runner: without(runner, unused) }),
    ...(isTable(runners) && !needsSecrets && { runners: eachWithout(runners, ["secret"]) }),
    ...(isTable(results) && reader !== "gateway" && { results: without(results, ["secret"]) }),
    ...(isTable(callbacks) && reader !== "producer" && { callbacks: without(callbacks, ["secret"]) }),
  };
}

type Table = Readonly<Record<string, unknown>>;

function eachWithout(tables: Table, keys: readonly string[]): Table {
  const entries = Object.entries(tables);
  return Object.fromEntries(
    entries.map(([name, table]) => [name, isTable(table) ? without(table, keys) : table]),
  );
}

function without(table: Table, keys: readonly string[]): Table {
  return Object.fromEntries(Object.entries(table).filter(([key]) => !keys.includes(key)));
}
