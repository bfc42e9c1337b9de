import { loadConfig } from "../../shared/config/config-dir.ts";
import { type ConfigTables, readTables, type Table } from "../../shared/config/config-tables.ts";
import type { PricingToml } from "../../shared/config/pricing-toml.ts";
import { readPricing } from "../../shared/pricing/read-pricing.ts";
import { readX402, type X402Config } from "../../shared/pricing/read-x402.ts";

/** The operator's files. */
export type Own = {
  tables: ConfigTables;
  /** What they say, checked. Absent if no directory was named. */
  checked?: Checked;
};

export type Checked = X402Config & {
  /** Absent without pricing.toml: the pricing engine is off. */
  pricing: PricingToml | undefined;
};

/** The operator's files; none if no directory was named. Throws `start.config_invalid`, which names these files, or the directory. */
export function readOwn(dir: string | undefined, env: NodeJS.ProcessEnv): Own {
  if (dir === undefined) return { tables: {} };
  const checked = checkedIn(dir, env);
  return { tables: readTables(dir), checked };
}

/** What the files of this directory say. Throws `start.config_invalid`. */
export function checkedIn(dir: string, env: NodeJS.ProcessEnv): Checked {
  return { ...loadConfig(readX402, { dir, env }), pricing: loadConfig(readPricing, { dir, env }).pricing };
}

/** Whether the operator's files do not say what is served, so that jobs may be sold for a devnet's tokens. */
export function sellsByItself({ tables: { webhooks, x402, pricing } }: Own): boolean {
  return webhooks === undefined && x402 === undefined && pricing === undefined;
}

export function runnerTable({ postern }: ConfigTables): Table {
  return (postern?.["runner"] ?? {}) as Table;
}
