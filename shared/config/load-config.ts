import { type ConfigDir, openConfigDir } from "./config-dir.ts";
import { isTable } from "./fields.ts";
import { type PosternToml, posternToml } from "./postern-toml.ts";
import { keyOf, type Problem } from "./problem.ts";
import { secretWarnings } from "./secret-warnings.ts";
import type { Env } from "./secrets.ts";
import { repeatedPaths, type WebhooksToml, webhooksToml } from "./webhooks-toml.ts";

export type Config = {
  postern: PosternToml;
  /** Absent without the file: the gateway is off. */
  webhooks: WebhooksToml | undefined;
  /** What is allowed and unwise, one line each. */
  warnings: readonly string[];
};

/** Who reads: it gets the secrets that it uses, and needs no other. Without a reader everything is read and checked. */
export type Reader = "gateway" | "producer" | "runner" | "command";

export type LoadOptions = { dir: string; env: Env; reader?: Reader | undefined };

/**
 * Reads `postern.toml` and `webhooks.toml`. Throws `start.config_invalid`, whose message lists every problem of these files, one a
 * line, as `file:line: key: what is wrong`. shared/pricing loads the files of the x402 gateway and of the pricing engine: their
 * checks compute prices, and no other process should hold their secrets.
 */
export function loadConfig({ dir, env, reader }: LoadOptions): Config {
  const files = openConfigDir(dir);
  const postern = readPostern(files, env, reader);
  return files.checked(readWebhooks(files, env, postern));
}

/** Reads `postern.toml` alone. */
export function loadPostern({ dir, env, reader }: LoadOptions): Omit<Config, "webhooks"> {
  const files = openConfigDir(dir);
  const postern = readPostern(files, env, reader);
  return files.checked(postern && { postern, warnings: secretWarnings("postern.toml", postern) });
}

/** A header that a sender could set must not look like what we say of the call. */
function forwardedMetadata(webhooks: WebhooksToml | undefined, prefix = ""): Problem[] {
  const start = `${prefix}-`.toLowerCase();
  return (webhooks?.endpoints ?? []).flatMap(({ forward_headers }, index) => {
    const at = forward_headers.findIndex((name) => prefix !== "" && name.toLowerCase().startsWith(start));
    const path = ["endpoints", index, "forward_headers", at];
    return at === -1 ? [] : [{ path, message: "begins with metadata_prefix, which only Postern sets" }];
  });
}

/** What the largest body of a file may take, and which of its keys says so. */
type LargestBody = { key: string; bytes: number };

/** A body that is larger than the budget of all bodies would be cut each time it comes. */
export function budgetProblems({ http }: PosternToml, bodies: readonly LargestBody[]): Problem[] {
  const [largest] = [...bodies].sort((one, other) => other.bytes - one.bytes);
  if (largest === undefined || http.body_budget_bytes >= largest.bytes) return [];
  const message = `is below ${largest.bytes}, which one body of ${largest.key} may take`;
  return [{ path: ["http", "body_budget_bytes"], message }];
}

/** Each endpoint's largest body; twice its bytes if there is a decoded form beside the received one. */
function largestBodies(webhooks: WebhooksToml): LargestBody[] {
  return webhooks.endpoints.map((endpoint, index) => {
    const limit = endpoint.body_limit_bytes ?? webhooks.body_limit_bytes;
    const key = keyOf(["endpoints", index], webhooks);
    if (endpoint.encoded_bodies !== "decode") return { key, bytes: limit };
    return { key: `${key}, received and decoded,`, bytes: 2 * limit };
  });
}

/** For a loader of more files, to which `webhooks.toml` is one more only if there is no reader. Problems go to `files`. */
export function readConfig(files: ConfigDir, env: Env, reader: Reader | undefined): Config | undefined {
  const postern = readPostern(files, env, reader);
  if (reader === undefined) return readWebhooks(files, env, postern);
  return postern && { postern, webhooks: undefined, warnings: secretWarnings("postern.toml", postern) };
}

function readPostern(files: ConfigDir, env: Env, reader: Reader | undefined): PosternToml | undefined {
  const name = "postern.toml";
  return files.read({ name, schema: posternToml(env), narrowed: (table) => withoutUnused(table, reader) });
}

function readWebhooks(files: ConfigDir, env: Env, postern: PosternToml | undefined): Config | undefined {
  const webhooks = files.read({
    name: "webhooks.toml",
    schema: webhooksToml(env),
    optional: true,
    problemsIn: repeatedPaths,
  });
  files.report("webhooks.toml", forwardedMetadata(webhooks, postern?.metadata_prefix));
  if (postern === undefined) return undefined;
  if (webhooks !== undefined) files.report("postern.toml", budgetProblems(postern, largestBodies(webhooks)));
  return {
    postern,
    webhooks,
    warnings: [...secretWarnings("postern.toml", postern), ...secretWarnings("webhooks.toml", webhooks)],
  };
}

/** `postern.toml` without the keys of runners that hold secrets of others than the reader. All of them may be absent. */
function withoutUnused(table: unknown, reader: Reader | undefined): unknown {
  if (!isTable(table) || reader === undefined) return table;
  const { runner, runners } = table;
  const ofRunner = {
    gateway: ["secret", "redis"],
    command: ["secret", "redis"],
    producer: ["redis"],
    runner: [],
  };
  return {
    ...table,
    ...(isTable(runner) && { runner: without(runner, ofRunner[reader]) }),
    ...(isTable(runners) && reader !== "producer" && { runners: eachWithout(runners, ["secret"]) }),
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
