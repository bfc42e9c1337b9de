import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Config, loadConfig } from "../../shared/config/load-config.ts";
import type { Env } from "../../shared/config/secrets.ts";
import { AppError, messageOf, toAppError } from "../../shared/errors/app-error.ts";
import type { TokenFindings } from "../../shared/ethereum/token-check.ts";
import { EXIT } from "../../shared/lifecycle/run-service.ts";
import type { PricingConfig } from "../../shared/pricing/load-pricing-config.ts";
import type { X402Config } from "../../shared/pricing/load-x402-config.ts";
import { chainOfToken } from "./payments/chain-of-token.ts";
import type { ProgramDeps } from "./program-deps.ts";

export type CheckOptions = { configDir: string; online?: boolean };

/**
 * `postern check-config`: prints the problems that a start would find, and starts nothing. 1 if the chain of a token cannot be asked.
 */
export async function checkConfig(
  { env, print, printError }: ProgramDeps,
  { configDir, online }: CheckOptions,
): Promise<number> {
  let config: AllConfig;
  try {
    config = await loadAll(configDir, env);
  } catch (thrown) {
    printError(`${toAppError(thrown).message}\n`);
    return EXIT.config;
  }
  for (const warning of config.warnings) printError(`warning: ${warning}\n`);
  const found = online ? await askChains(config) : { problems: [], warnings: [], unknown: [] };
  for (const warning of found.warnings) printError(`warning: ${warning}\n`);
  for (const problem of [...found.problems, ...found.unknown]) printError(`${problem}\n`);
  if (found.problems.length > 0) return EXIT.config;
  if (found.unknown.length > 0) return EXIT.failed;
  print(`${configDir}: the configuration is valid; ${servicesOf(config)}\n`);
  return EXIT.ok;
}

type Found = TokenFindings & { unknown: string[] };

/** Compares the accepted tokens with their contracts; `unknown` are those that cannot be. */
async function askChains({ x402 }: AllConfig): Promise<Found> {
  const found: Found = { problems: [], warnings: [], unknown: [] };
  for (const token of x402?.accepted_tokens ?? []) {
    const named = (text: string): string => `x402.toml: ${token.symbol} on ${token.network}: ${text}`;
    const chain = chainOfToken(token);
    if (chain === undefined) continue;
    try {
      const { problems, warnings } = await chain.check(token);
      found.problems.push(...problems.map(named));
      found.warnings.push(...warnings.map(named));
    } catch (error) {
      found.unknown.push(named(`its chain cannot be asked: ${messageOf(error)}`));
    }
  }
  return found;
}

type Load = (options: { dir: string; env: Env }) => AllConfig;
type AllConfig = Config & Partial<X402Config> & Partial<PricingConfig>;

/** Reads every file that is there, and imports the loaders of a service only if it has files. */
async function loadAll(dir: string, env: Env): Promise<AllConfig> {
  const isThere = (name: string): boolean => existsSync(join(dir, name));
  const loads: Load[] = [loadConfig];
  if (isThere("x402.toml") || isThere("job_pricing.toml"))
    loads.push((await import("../../shared/pricing/load-x402-config.ts")).loadX402Config);
  if (isThere("pricing.toml"))
    loads.push((await import("../../shared/pricing/load-pricing-config.ts")).loadPricingConfig);

  const configs: AllConfig[] = [];
  const problems: string[] = [];
  for (const load of loads) {
    try {
      configs.push(load({ dir, env }));
    } catch (thrown) {
      problems.push(...toAppError(thrown).message.split("\n"));
    }
  }
  if (problems.length > 0)
    throw new AppError("start.config_invalid", { reason: distinct(problems).join("\n") });
  const warnings = distinct(configs.flatMap((config) => config.warnings));
  return Object.assign({}, ...configs, { warnings });
}

/** Several loaders read the same file and find the same problems in it. */
function distinct(lines: readonly string[]): string[] {
  return [...new Set(lines)];
}

function servicesOf({ postern, webhooks, x402, prices, pricing, jobs }: AllConfig): string {
  const endpoints =
    webhooks === undefined ? "off (no webhooks.toml)" : counted(webhooks.endpoints.length, "endpoint");
  const sold =
    x402 === undefined
      ? "off (no x402.toml)"
      : `${counted(prices?.size ?? 0, "priced job")}, ${counted(x402.accepted_tokens.length, "token")}`;
  const quoted = pricing === undefined ? "off (no pricing.toml)" : counted(jobs?.size ?? 0, "priced job");
  const runner = postern.runner.redis === undefined ? "the Redis of all" : "a Redis of its own";
  return `webhooks gateway: ${endpoints}; x402 gateway: ${sold}; pricing engine: ${quoted}; runner: ${runner}`;
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
