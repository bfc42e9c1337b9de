import { existsSync } from "node:fs";
import { loadPricingConfig } from "../../shared/config/load-pricing.ts";
import { loadX402Config, type X402Config } from "../../shared/config/load-x402.ts";
import type { PricingToml } from "../../shared/config/pricing-toml.ts";
import { readTables } from "../../shared/config/read-tables.ts";
import { type ConfigTables, type Table, writeConfig } from "../../shared/config/write-config.ts";
import { createDevConfig, createDevPayments, createDevPricing, newSecret } from "../../shared/dev/config.ts";
import type { Devnet } from "../../shared/dev/devnet.ts";
import { freePort } from "../../shared/dev/free-port.ts";

export type Effective = X402Config & {
  dir: string;
  /** Whether the endpoints and their secrets were made for this run. */
  madeUp: boolean;
  /** Absent without pricing.toml: the pricing engine is off. */
  pricing: PricingToml | undefined;
};

/** The operator's files, none where there is no such directory. Throws `start.config_invalid`, with their own names. */
export function readOwn(dir: string | undefined, env: NodeJS.ProcessEnv): ConfigTables {
  if (dir === undefined || !existsSync(dir)) return {};
  loadX402Config({ dir, env });
  loadPricingConfig({ dir, env });
  return readTables(dir);
}

/** Whether nothing of the operator's own says what is served, so that jobs may be sold for a devnet's tokens. */
export function wantsDevnet({ webhooks, x402, pricing }: ConfigTables): boolean {
  return webhooks === undefined && x402 === undefined && pricing === undefined;
}

type Options = {
  own: ConfigTables;
  target: string;
  redisUrl: string;
  /** Where jobs are to be sold for its tokens. */
  devnet: Devnet | undefined;
  serviceId: string | undefined;
  env: NodeJS.ProcessEnv;
};

/**
 * Writes to `target` what the parts shall run with: the operator's files where there are some, with dev's Redis in
 * place of theirs and no time to drain, else a configuration made up for this run. Throws `start.config_invalid`.
 */
export async function writeEffectiveConfig({
  own,
  target,
  redisUrl,
  ...options
}: Options): Promise<Effective> {
  const madeUp = own.webhooks === undefined;
  const made = madeUp ? await madeUpTables(redisUrl) : {};
  writeConfig(target, {
    ...made,
    ...(await onDevnet({ ...options, target })),
    ...own,
    postern: adapted({ ...made.postern, ...own.postern }, redisUrl),
  });
  const { pricing } = loadPricingConfig({ dir: target, env: options.env });
  return { ...loadX402Config({ dir: target, env: options.env }), pricing, dir: target, madeUp };
}

async function madeUpTables(redisUrl: string): Promise<ConfigTables> {
  const [webhooks, runner] = [`127.0.0.1:${await freePort(9090)}`, `127.0.0.1:${await freePort(8645)}`];
  return createDevConfig({ redisUrl, webhooks, runner });
}

async function onDevnet({
  devnet,
  env,
  serviceId = env["POSTERN_SERVICE_ID"] ?? "0",
  target,
}: Pick<Options, "devnet" | "env" | "serviceId" | "target">): Promise<ConfigTables> {
  if (devnet === undefined) return {};
  const at = async (port: number) => `127.0.0.1:${await freePort(port)}`;
  const { x402, job_pricing } = createDevPayments(devnet, await at(8402), serviceId);
  const engine = createDevPricing(devnet, { grpc: await at(50_051), http: await at(8404) }, target);
  return { x402: { ...x402, ...engine.x402 }, pricing: engine.pricing, job_pricing };
}

function adapted(postern: Table, redisUrl: string): Table {
  const { redis, runner } = postern as { redis?: object; runner?: object };
  return {
    ...postern,
    drain_secs: 0,
    redis: { ...redis, url: redisUrl },
    runner: { secret: newSecret(), ...runner },
  };
}
