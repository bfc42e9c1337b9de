import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Config, loadConfig } from "../../shared/config/load-config.ts";
import { AppError, toAppError } from "../../shared/errors/app-error.ts";
import { EXIT } from "../../shared/lifecycle/run-service.ts";
import type { PricingConfig } from "../../shared/pricing/load-pricing-config.ts";
import type { X402Config } from "../../shared/pricing/load-x402-config.ts";
import type { ProgramDeps } from "./program-deps.ts";

/** `postern check-config`: what a start would say of the configuration, without starting. */
export async function checkAllConfig(
  { env, print, printError }: ProgramDeps,
  { configDir }: { configDir: string },
): Promise<number> {
  try {
    const config = await loadAll({ dir: configDir, env });
    for (const warning of config.warnings) printError(`warning: ${warning}\n`);
    print(`${configDir}: the configuration is valid; ${servicesOf(config)}\n`);
    return EXIT.ok;
  } catch (thrown) {
    printError(`${toAppError(thrown).message}\n`);
    return EXIT.config;
  }
}

type All = Config & Partial<X402Config> & Partial<PricingConfig>;
type Load = (options: Parameters<typeof loadConfig>[0]) => All;

/** Every file there is. What the files of a service need is loaded only where there are some. */
async function loadAll(options: Parameters<typeof loadConfig>[0]): Promise<All> {
  const isThere = (name: string): boolean => existsSync(join(options.dir, name));
  const loads: Load[] = [loadConfig];
  if (isThere("x402.toml") || isThere("job_pricing.toml"))
    loads.push((await import("../../shared/pricing/load-x402-config.ts")).loadX402Config);
  if (isThere("pricing.toml"))
    loads.push((await import("../../shared/pricing/load-pricing-config.ts")).loadPricingConfig);
  const loaded = loads.map((load) => outcomeOf(() => load(options)));
  const problems = loaded.flatMap((each) => (each instanceof AppError ? each.message.split("\n") : []));
  if (problems.length > 0)
    throw new AppError("start.config_invalid", { reason: distinct(problems).join("\n") });
  const configs = loaded as All[];
  const warnings = distinct(configs.flatMap((config) => config.warnings));
  return Object.assign({}, ...configs, { warnings });
}

function outcomeOf(load: () => All): All | AppError {
  try {
    return load();
  } catch (thrown) {
    return toAppError(thrown);
  }
}

/** The files that several services read are read for each, and say the same each time. */
function distinct(lines: readonly string[]): string[] {
  return [...new Set(lines)];
}

function servicesOf({ x402, prices, pricing, jobs, ...config }: All): string {
  const sold =
    x402 === undefined
      ? "off (no x402.toml)"
      : `${prices?.size} priced jobs, ${x402.accepted_tokens.length} tokens`;
  const quoted = pricing === undefined ? "off (no pricing.toml)" : `${jobs?.size} priced jobs`;
  return `${webhooksOf(config)}; x402 gateway: ${sold}; pricing engine: ${quoted}`;
}

function webhooksOf({ webhooks }: Config): string {
  return `webhooks gateway: ${webhooks === undefined ? "off (no webhooks.toml)" : `${webhooks.endpoints.length} endpoints`}`;
}
