import { budgetWarnings, withFittingBudget } from "./body-budgets.ts";
import { unsignedCallbacks } from "./callbacks-toml.ts";
import type { CheckedTables } from "./checked-tables.ts";
import { deliveryProblems } from "./deliverers.ts";
import { isTable } from "./fields.ts";
import { type PosternToml, posternToml } from "./postern-toml.ts";
import { secretWarnings } from "./secret-warnings.ts";
import type { Env } from "./secrets.ts";

/** Who reads: it gets the secrets that it uses, and needs no other. Without a reader everything is read and checked. */
export type Reader = "gateway" | "pricing" | "producer" | "runner" | "operator" | "command";

export type PosternConfig = {
  postern: PosternToml;
  /** What is allowed and unwise, one line each. */
  warnings: readonly string[];
};

/** Reads `postern.toml`. Problems go to `files`. */
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
