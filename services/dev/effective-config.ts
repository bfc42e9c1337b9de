import { existsSync } from "node:fs";
import { type ConfigTables, readTables, type Table, writeConfig } from "../../shared/config/config-tables.ts";
import type { PricingToml } from "../../shared/config/pricing-toml.ts";
import { createDevConfig, createDevPayments, createDevPricing, newSecret } from "../../shared/dev/config.ts";
import type { Devnet } from "../../shared/dev/devnet.ts";
import { freePort } from "../../shared/dev/free-port.ts";
import { loadPricingConfig } from "../../shared/pricing/load-pricing-config.ts";
import { loadX402Config, type X402Config } from "../../shared/pricing/load-x402-config.ts";

export type Effective = X402Config & {
  dir: string;
  /** Whether the endpoints and their secrets were made for this run. */
  madeUp: boolean;
  /** Absent without pricing.toml: the pricing engine is off. */
  pricing: PricingToml | undefined;
};

/** The operator's files; none if there is no such directory. Throws `start.config_invalid`, which names these files. */
export function readOwn(dir: string | undefined, env: NodeJS.ProcessEnv): ConfigTables {
  if (dir === undefined || !existsSync(dir)) return {};
  loadX402Config({ dir, env });
  loadPricingConfig({ dir, env });
  return readTables(dir);
}

/** Whether the operator's files do not say what is served, so that jobs may be sold for a devnet's tokens. */
export function wantsDevnet({ webhooks, x402, pricing }: ConfigTables): boolean {
  return webhooks === undefined && x402 === undefined && pricing === undefined;
}

type Options = {
  own: ConfigTables;
  target: string;
  redisUrl: string;
  /** If there is one, jobs are sold for its tokens. */
  devnet: Devnet | undefined;
  serviceId: string | undefined;
  env: NodeJS.ProcessEnv;
};

/**
 * Writes to `target` the configuration that the parts run with: the operator's files if there are some, but with dev's Redis
 * and no time to drain; else a configuration made up for this run. Throws `start.config_invalid`.
 */
export async function writeEffectiveConfig(options: Options): Promise<Effective> {
  const { own, target, redisUrl, devnet, serviceId, env } = options;
  const madeUp = own.webhooks === undefined;
  const made: ConfigTables = madeUp
    ? createDevConfig({ redisUrl, webhooks: await at(9090), runner: await at(8645) })
    : {};
  const sold = devnet && (await paymentTables(devnet, serviceId ?? env["POSTERN_SERVICE_ID"] ?? "0", target));
  writeConfig(target, {
    ...made,
    ...sold,
    ...own,
    postern: adapted({ ...made.postern, ...own.postern }, redisUrl),
  });
  const { pricing } = loadPricingConfig({ dir: target, env });
  return { ...loadX402Config({ dir: target, env }), pricing, dir: target, madeUp };
}

async function paymentTables(devnet: Devnet, serviceId: string, dir: string): Promise<ConfigTables> {
  const { x402, job_pricing } = createDevPayments(devnet, await at(8402), serviceId);
  const engine = createDevPricing(devnet, { grpc: await at(50_051), http: await at(8404) }, dir);
  return { x402: { ...x402, ...engine.x402 }, pricing: engine.pricing, job_pricing };
}

/** This port of 127.0.0.1 if it is free, else another one. */
async function at(port: number): Promise<string> {
  return `127.0.0.1:${await freePort(port)}`;
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
