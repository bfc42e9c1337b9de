import { loadAcceptedTokens } from "../../shared/config/accepted-tokens.ts";
import { loadConfig } from "../../shared/config/config-dir.ts";
import { readOperator } from "../../shared/config/read-operator.ts";
import { type PosternConfig, readPostern } from "../../shared/config/read-postern.ts";
import { readWebhooks } from "../../shared/config/read-webhooks.ts";
import type { Env } from "../../shared/config/secrets.ts";
import { readPricing } from "../../shared/pricing/read-pricing.ts";
import { readX402 } from "../../shared/pricing/read-x402.ts";

/** Loads the configuration that each process loads at its start. The console's includes what it loads for its answers. */
export const LOADS: Record<string, (dir: string, env: Env) => PosternConfig> = {
  webhooks: (dir, env) => loadConfig(readWebhooks, { dir, env, reader: "gateway" }),
  x402: (dir, env) => loadConfig(readX402, { dir, env, reader: "gateway" }),
  pricing: (dir, env) => loadConfig(readPricing, { dir, env, reader: "pricing" }),
  producer: (dir, env) => loadConfig(readPostern, { dir, env, reader: "producer" }),
  runner: (dir, env) => loadConfig(readPostern, { dir, env, reader: "runner" }),
  operator(dir, env) {
    for (const use of ["names", "chains", "rates"] as const) loadAcceptedTokens({ dir, env }, use);
    return loadConfig(readOperator, { dir, env, reader: "operator" });
  },
};
