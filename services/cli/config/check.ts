import { join } from "node:path";
import type { TokenFindings } from "../../../shared/chain/token-check.ts";
import { loadConfig, type Read } from "../../../shared/config/config-dir.ts";
import { type OperatorConfig, readOperator } from "../../../shared/config/read-operator.ts";
import { type Config, readWebhooks } from "../../../shared/config/read-webhooks.ts";
import type { Env } from "../../../shared/config/secrets.ts";
import { AppError, messageOf, toAppError } from "../../../shared/platform/errors/app-error.ts";
import { EXIT } from "../../../shared/platform/lifecycle/run-service.ts";
import { isAbsent } from "../../../shared/platform/text/read-text.ts";
import type { PricingConfig } from "../../../shared/pricing/read-pricing.ts";
import type { X402Config } from "../../../shared/pricing/read-x402.ts";
import type { ProgramDeps } from "../program-deps.ts";
import { counted, jsonLine } from "../text.ts";

export type CheckOptions = { configDir: string; online?: boolean; json?: boolean };

/**
 * `postern config check`: prints the problems in the configuration that services would find at their start. Exit code 3
 * if there are some. With --online it also checks the tokens on the chain, and the exit code is 1 if a chain does not
 * answer.
 */
export async function checkConfig(deps: ProgramDeps, options: CheckOptions): Promise<number> {
  const { configDir, online, json } = options;
  const { found, config } = await readConfiguration(configDir, deps.env, online ?? false);
  const problems = [...found.problems, ...found.unknown];
  const services = config && problems.length === 0 ? servicesOf(config) : undefined;
  if (json) {
    const { warnings } = found;
    const valid = services !== undefined;
    deps.print(jsonLine({ config_dir: configDir, valid, problems, warnings, services: services ?? null }));
  } else for (const warning of found.warnings) deps.note(`warning: ${warning}\n`);
  if (problems.length > 0) deps.printError(`${problems.join("\n")}\n`);
  if (services !== undefined) deps.say(validText(configDir, services, deps.paint));
  if (found.problems.length > 0) return EXIT.config;
  return found.unknown.length > 0 ? EXIT.failed : EXIT.ok;
}

/** Returns the problems and warnings of the configuration, and the configuration itself if it can be read. */
async function readConfiguration(
  dir: string,
  env: Env,
  online: boolean,
): Promise<{ found: Found; config?: AllConfig }> {
  let config: AllConfig;
  try {
    config = await loadAll(dir, env);
  } catch (thrown) {
    return { found: { problems: toAppError(thrown).message.split("\n"), warnings: [], unknown: [] } };
  }
  const asked = online ? await checkTokens(config) : { problems: [], warnings: [], unknown: [] };
  return { config, found: { ...asked, warnings: [...config.warnings, ...asked.warnings] } };
}

type Found = TokenFindings & { unknown: string[] };

/**
 * Compares the settings of each accepted token with its contract on the chain. `unknown` has a message for each token
 * whose chain does not answer.
 */
async function checkTokens({ x402 }: AllConfig): Promise<Found> {
  const { chainOfToken } = await import("../../../shared/chain/chain-of-token.ts");
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
      found.unknown.push(named(`the chain cannot be queried: ${messageOf(error)}`));
    }
  }
  return found;
}

type Some = Partial<AllConfig> & Pick<Config, "warnings">;
type AllConfig = Config & Partial<X402Config> & Partial<PricingConfig> & Pick<OperatorConfig, "operator">;

/**
 * Reads the configuration of all services and collects the problems of all files. Imports the readers for payments and
 * pricing only if their files exist.
 */
async function loadAll(dir: string, env: Env): Promise<AllConfig> {
  const isThere = (name: string): boolean => !isAbsent(join(dir, name));
  const reads: Read<Some>[] = [readWebhooks, readOperator];
  if (isThere("x402.toml") || isThere("job_pricing.toml"))
    reads.push((await import("../../../shared/pricing/read-x402.ts")).readX402);
  if (isThere("pricing.toml"))
    reads.push((await import("../../../shared/pricing/read-pricing.ts")).readPricing);

  const configs: Some[] = [];
  const problems: string[] = [];
  for (const read of reads) {
    try {
      configs.push(loadConfig(read, { dir, env }));
    } catch (thrown) {
      problems.push(...toAppError(thrown).message.split("\n"));
    }
  }
  if (problems.length > 0)
    throw new AppError("start.config_invalid", { reason: withoutDuplicates(problems).join("\n") });
  const warnings = withoutDuplicates(configs.flatMap((config) => config.warnings));
  return Object.assign({}, ...configs, { warnings });
}

/** Removes duplicates: several readers read the same file, such as postern.toml, and each reports the problems in it. */
function withoutDuplicates(lines: readonly string[]): string[] {
  return [...new Set(lines)];
}

/** Summarizes the configuration of each service; null for a service that is off because its file is missing. */
function servicesOf({ postern, webhooks, x402, prices, pricing, jobs, operator }: AllConfig) {
  return {
    webhooks: webhooks === undefined ? null : { endpoints: webhooks.endpoints.length },
    x402: x402 === undefined ? null : { jobs: prices?.size ?? 0, tokens: x402.accepted_tokens.length },
    pricing: pricing === undefined ? null : { jobs: jobs?.size ?? 0 },
    runner: { url: postern.runner.url, own_redis: postern.runner.redis !== undefined },
    operator: { address: operator.bind_address, tokens: operator.tokens.length },
  };
}

function validText(
  dir: string,
  { webhooks, x402, pricing, runner, operator }: ReturnType<typeof servicesOf>,
  paint: ProgramDeps["paint"],
): string {
  const endpoints = webhooks === null ? "off (no webhooks.toml)" : counted(webhooks.endpoints, "endpoint");
  const sold =
    x402 === null
      ? "off (no x402.toml)"
      : `${counted(x402.jobs, "priced job")}, ${counted(x402.tokens, "token")}`;
  const quoted = pricing === null ? "off (no pricing.toml)" : counted(pricing.jobs, "priced job");
  const redis = runner.own_redis ? " (postern runner uses the Redis of [runner.redis])" : "";
  const console =
    operator.tokens === 0 ? "no tokens, only for this machine" : counted(operator.tokens, "token");
  const valid = paint("good", "the configuration is valid");
  return `${dir}: ${valid}; webhooks gateway: ${endpoints}; payment gateway: ${sold}; pricing engine: ${quoted}; runner: ${runner.url}${redis}; console: ${console}\n`;
}
