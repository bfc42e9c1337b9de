import { budgetWarnings, withFittingBudget } from "./body-budgets.ts";
import { unsignedCallbacks } from "./callbacks-toml.ts";
import type { CheckedTables } from "./checked-tables.ts";
import { deliveryProblems } from "./deliverers.ts";
import { isTable } from "./fields.ts";
import { type PosternToml, posternToml } from "./postern-toml.ts";
import { secretWarnings } from "./secret-warnings.ts";
import type { Env } from "./secrets.ts";

/**
 * The kind of process that reads the files. It gets only the secrets that it uses. Without a reader everything is
 * read and checked.
 */
export type Reader = "gateway" | "pricing" | "producer" | "runner" | "operator" | "command";

export type PosternConfig = {
  postern: PosternToml;
  /** Warnings about permitted but unwise settings, one line each. */
  warnings: readonly string[];
};

/** Reads `postern.toml`. Adds problems to `files`. */
export function readPostern(
  files: CheckedTables,
  env: Env,
  reader: Reader | undefined,
): PosternConfig | undefined {
  const name = "postern.toml";
  const narrowed = (table: unknown) => withFittingBudget(withoutUnused(table, reader), reader);
  const postern = files.read({
    name,
    schema: posternToml({ env, dir: files.dir }),
    narrowed,
    problemsIn: unsignedCallbacks,
  });
  const takesDeliveries = reader === undefined || reader === "gateway";
  if (takesDeliveries) files.reportBetween<[PosternToml]>(name, [name], deliveryProblems);
  if (postern === undefined) return undefined;
  const warnings = [...secretWarnings(name, postern), ...budgetWarnings(name, postern, reader)];
  return { postern, warnings };
}

/**
 * Removes the keys of `postern.toml` that hold secrets of other processes, and the keys that need these secrets. So
 * missing secrets of other processes are not reported. A gateway needs the secrets of runners only to accept their
 * deliveries.
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
