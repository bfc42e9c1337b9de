import { loadConfig } from "../../shared/config/config-dir.ts";
import { type ConfigTables, readTables, type Table } from "../../shared/config/config-tables.ts";
import type { PricingToml } from "../../shared/config/pricing-toml.ts";
import { readPricing } from "../../shared/pricing/read-pricing.ts";
import { readX402, type X402Config } from "../../shared/pricing/read-x402.ts";

/** Content of the operator's own configuration files, from the directory of `--config-dir`. */
export type Own = {
  tables: ConfigTables;
  /** Content of the files after validation, with defaults. Undefined if `postern dev` was started without `--config-dir`. */
  checked?: Checked;
};

export type Checked = X402Config & {
  /** Content of `pricing.toml`. Undefined if there is no such file. The pricing engine does not run then. */
  pricing: PricingToml | undefined;
};

/**
 * Reads the operator's files. Without a directory, the tables are empty. Throws
 * `start.config_invalid`, whose message names the faulty files or the directory.
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
 * Returns whether `postern dev` may generate jobs and sell them for the tokens of a devnet. It may if the operator's
 * files configure no gateway and no pricing engine.
 */
export function sellsOnDevnet({ tables: { webhooks, x402, pricing } }: Own): boolean {
  return webhooks === undefined && x402 === undefined && pricing === undefined;
}

export function runnerTable({ postern }: ConfigTables): Table {
  return (postern?.["runner"] ?? {}) as Table;
}
