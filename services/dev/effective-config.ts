import { type ConfigTables, type Table, writeConfig } from "../../shared/config/config-tables.ts";
import {
  createDevPayments,
  createDevPricing,
  createDevWebhooks,
  type DevSecrets,
} from "../../shared/dev/config.ts";
import type { Devnet } from "../../shared/dev/devnet.ts";
import { movedTables } from "./moved-tables.ts";
import { type Checked, checkedIn, type Own, runnerTable } from "./own-config.ts";
import type { Ports } from "./ports.ts";

export type Effective = Checked & {
  dir: string;
  /** Whether the endpoints and their secrets were made up. */
  madeUp: boolean;
  /** For each endpoint, the variable that holds its secret; undefined if it is elsewhere. */
  variables: readonly (string | undefined)[];
  /** Whether the jobs that are sold were made up. */
  sellsByItself: boolean;
  /** Whether the secret of runner and producer was made up. */
  madeUpRunnerSecret: boolean;
  /** Where runners deliver what long jobs answer; undefined if deliveries are off. */
  deliverTo: string | undefined;
  /** Whether the operator's files say where the console listens. */
  hasConsole: boolean;
};

type Options = {
  own: Own;
  /** Whether jobs are sold for a devnet's tokens although `own` does not say so. */
  sellsByItself: boolean;
  target: string;
  redisUrl: string;
  devnet: Devnet | undefined;
  /** The operator's own runner; undefined for the reference runner. */
  ownRunner: string | undefined;
  ports: Ports;
  /** The webhooks gateway's ops address, where runners deliver. */
  deliverTo: string;
  /** Asked for only if something has to be made up. */
  secrets: () => DevSecrets;
  serviceId: string;
  env: NodeJS.ProcessEnv;
};

/**
 * Writes to `target` the configuration that the parts run with: the operator's files if there are some, but with dev's Redis,
 * runner and ports, and no time to drain; else one that is made up. Throws `start.config_invalid`.
 */
export async function writeEffectiveConfig(options: Options): Promise<Effective> {
  const { own, sellsByItself, target, env, ports } = options;
  const tables = ports.chosen ? await movedTables(own, options.devnet, ports) : own.tables;
  const madeUp = tables.webhooks === undefined;
  const made = madeUp ? { webhooks: createDevWebhooks(await at(ports, "webhooks"), options.secrets()) } : {};
  const sold = sellsByItself ? await paymentTables(options) : {};
  const deliverTo = takesDeliveries(tables) ? options.deliverTo : undefined;
  writeConfig(target, {
    ...made,
    ...sold,
    ...tables,
    postern: {
      ...tables.postern,
      drain_secs: 0,
      redis: { url: options.redisUrl },
      runner: {
        ...(await adaptedRunner(runnerTable(tables), options)),
        deliver_to: deliverTo === undefined ? [] : [deliverTo],
      },
      results: { ...(tables.postern?.["results"] as Table | undefined), deliveries: deliverTo !== undefined },
    },
  });
  const madeUpRunnerSecret = runnerTable(tables)["secret"] === undefined;
  const hasConsole = tables.operator !== undefined;
  return {
    ...checkedIn(target, env),
    dir: target,
    madeUp,
    variables: variablesIn(tables.webhooks),
    sellsByItself,
    madeUpRunnerSecret,
    deliverTo,
    hasConsole,
  };
}

function variablesIn(webhooks: Table | undefined): (string | undefined)[] {
  const endpoints = (webhooks?.["endpoints"] ?? []) as Table[];
  return endpoints.map(({ secret }) => /^env:([A-Za-z_]\w*)$/.exec(String([secret].flat()[0]))?.[1]);
}

/** As the operator's files say; else if each further runner has a secret, without which a gateway would not start. */
function takesDeliveries({ postern = {} }: ConfigTables): boolean {
  const { results, runners } = postern as { results?: Table; runners?: Record<string, Table> };
  const said = results?.["deliveries"];
  if (said !== undefined) return said === true;
  return Object.values(runners ?? {}).every((runner) => runner["secret"] !== undefined);
}

async function paymentTables(options: Options): Promise<ConfigTables> {
  const { devnet, ownRunner, ports, secrets: made, serviceId, target } = options;
  if (devnet === undefined) return {};
  const secrets = made();
  const { x402, job_pricing } = createDevPayments(devnet, {
    address: await at(ports, "x402"),
    serviceId,
    secrets,
    unknownJobs: ownRunner !== undefined,
  });
  const listens = { grpc: await at(ports, "pricingGrpc"), http: await at(ports, "pricingHttp") };
  const engine = createDevPricing(devnet, { ...listens, secrets }, target);
  return { x402: { ...x402, ...engine.x402 }, pricing: engine.pricing, job_pricing };
}

/** The runner that calls are sent to, and the address of the reference runner if that is the one, which uses dev's Redis too. */
async function adaptedRunner(
  { redis: _redis, ...own }: Table,
  { ownRunner, ports, secrets }: Options,
): Promise<Table> {
  const secret = own["secret"] ?? secrets().runner;
  if (ownRunner !== undefined) return { ...own, secret, url: ownRunner };
  const { url, bind_address: bound } = own as { url?: string; bind_address?: string };
  if (url !== undefined && !ports.chosen) return { ...own, secret };
  const address = ports.chosen || bound === undefined ? await at(ports, "runner") : bound;
  return { ...own, secret, bind_address: address, url: `http://${reachable(address)}` };
}

/** An address bound on all interfaces, as one that can be asked. */
export function reachable(address: string): string {
  return address.replace(/^(0\.0\.0\.0|\[::\]):/, "127.0.0.1:");
}

async function at(ports: Ports, place: Parameters<Ports["of"]>[0]): Promise<string> {
  return `127.0.0.1:${await ports.of(place)}`;
}
