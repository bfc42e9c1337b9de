import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse, type TomlTable } from "smol-toml";
import type { ConfigTables } from "./write-config.ts";

/** The tables of a configuration directory as they are written, unchecked: for who writes a changed copy of it. */
export function readTables(dir: string): ConfigTables {
  const read = (name: string): TomlTable | undefined => {
    const path = join(dir, name);
    return existsSync(path) ? parse(readFileSync(path, "utf8")) : undefined;
  };
  const [postern, webhooks] = [read("postern.toml"), read("webhooks.toml")];
  const [x402, pricing] = [read("x402.toml"), read("pricing.toml")];
  const prices = read("job_pricing.toml");
  return {
    ...(postern && { postern }),
    ...(webhooks && { webhooks }),
    ...(x402 && { x402 }),
    ...(pricing && { pricing }),
    ...(prices && { job_pricing: prices }),
  };
}
