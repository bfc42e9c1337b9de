import { openConfigDir } from "../config/config-dir.ts";
import type { LoadOptions } from "../config/load-config.ts";
import { type PricingConfig, readPricingConfig } from "./pricing-checks.ts";

/** Like `loadConfig`, with the files of the pricing engine: one error lists the problems of all files. */
export function loadPricingConfig({ dir, env, reader }: LoadOptions): PricingConfig {
  return readPricingConfig(openConfigDir(dir), env, reader);
}
