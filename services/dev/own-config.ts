import { loadConfig } from "../../shared/config/config-dir.ts";
import { type ConfigTables, readTables, type Table } from "../../shared/config/config-tables.ts";
import type { PricingToml } from "../../shared/config/pricing-toml.ts";
import { readPricing } from "../../shared/pricing/read-pricing.ts";
import { readX402, type X402Config } from "../../shared/pricing/read-x402.ts";

/** The operator's files. */
export type Own = {
  tables: ConfigTables;
  /** The validated content of the files. Undefined if no directory was named. */
  checked?: Checked;
};

export type Checked = X402Config & {
  /** Undefined if there is no `pricing.toml`. The pricing engine is off then. */
  pricing: PricingToml | undefined;
};

/**
 * Reads the operator's files. Without a named directory, the tables are empty. Throws `start.config_invalid`, which
 * names the files or the directory.
 */
export function readOwn(dir: string | undefined, env: NodeJS.ProcessEnv): Own {
  if (dir === undefined) return { tables: {} };
  const checked = checkedIn(dir, env);
  return { tables: readTables(dir), checked };
}

/** Reads and validates the files of this directory. Throws `start.config_invalid`. */
export function checkedIn(dir: string, env: NodeJS.ProcessEnv): Checked {
  return { ...loadConfig(readX402, { dir, env }), pricing: loadConfig(readPricing, { dir, env }).pricing };
}

/**
 * Whether `postern dev` may add jobs that are sold for a devnet's tokens. It may if the operator's files configure no
 * gateway and no pricing engine.
 */
export function sellsOnDevnet({ tables: { webhooks, x402, pricing } }: Own): boolean {
  return webhooks === undefined && x402 === undefined && pricing === undefined;
}

export function runnerTable({ postern }: ConfigTables): Table {
  return (postern?.["runner"] ?? {}) as Table;
}
