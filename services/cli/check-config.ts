import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Config, loadConfig } from "../../shared/config/load-config.ts";
import type { X402Config } from "../../shared/config/load-x402.ts";
import { toAppError } from "../../shared/errors/app-error.ts";
import { EXIT } from "../../shared/lifecycle/run-service.ts";
import type { ProgramDeps } from "./program-deps.ts";

/** `postern check-config`: what a start would say of the configuration, without starting. */
export async function checkAllConfig(
  { env, print, printError }: ProgramDeps,
  { configDir }: { configDir: string },
): Promise<number> {
  try {
    const config = await loadAll({ dir: configDir, env });
    for (const warning of config.warnings) printError(`warning: ${warning}\n`);
    print(`${configDir}: the configuration is valid; ${gatewaysOf(config)}\n`);
    return EXIT.ok;
  } catch (thrown) {
    printError(`${toAppError(thrown).message}\n`);
    return EXIT.config;
  }
}

/** Every file there is. What the x402 gateway's files need is loaded only where there are some. */
async function loadAll(options: Parameters<typeof loadConfig>[0]): Promise<Config & Partial<X402Config>> {
  const isThere = (name: string): boolean => existsSync(join(options.dir, name));
  if (!isThere("x402.toml") && !isThere("job_pricing.toml")) return loadConfig(options);
  const { loadX402Config } = await import("../../shared/config/load-x402.ts");
  return loadX402Config(options);
}

function gatewaysOf({ x402, prices, ...config }: Config & Partial<X402Config>): string {
  const sold =
    x402 === undefined
      ? "off (no x402.toml)"
      : `${prices?.size} priced jobs, ${x402.accepted_tokens.length} tokens`;
  return `${webhooksOf(config)}; x402 gateway: ${sold}`;
}

function webhooksOf({ webhooks }: Config): string {
  return `webhooks gateway: ${webhooks === undefined ? "off (no webhooks.toml)" : `${webhooks.endpoints.length} endpoints`}`;
}
