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
  /** Whether `postern dev` generated the endpoints and their secrets, because the operator's files have none. */
  hasGeneratedEndpoints: boolean;
  /** Name of the environment variable with each endpoint's secret. Undefined if the secret is in a file. */
  variables: readonly (string | undefined)[];
  /** Whether `postern dev` generated jobs and sells them. */
  sellsOnDevnet: boolean;
  /** Whether `postern dev` generated the secret that runner and producer share. */
  hasGeneratedRunnerSecret: boolean;
  /** URL to which runners deliver the results of long jobs; undefined if deliveries are disabled. */
  deliverTo: string | undefined;
  /** Whether the operator's files set the address of the console. */
  hasConsole: boolean;
};

type Options = {
  own: Own;
  /** Whether `postern dev` adds jobs to the operator's configuration (`own`), and sells them for the tokens of a devnet. */
  sellsOnDevnet: boolean;
  target: string;
  redisUrl: string;
  devnet: Devnet | undefined;
  /** The operator's own runner; undefined for the reference runner. */
  ownRunner: string | undefined;
  ports: Ports;
  /** URL of the webhooks gateway's ops port, to which runners deliver the results of long jobs. */
  deliverTo: string;
  /** Returns the secrets that `postern dev` generates. Called only if the operator's configuration lacks one. */
  secrets: () => DevSecrets;
  serviceId: string;
  env: NodeJS.ProcessEnv;
};

/**
 * Writes the configuration with which the processes of `postern dev` run to the folder `target`. It is a copy of the
 * operator's files, with the Redis, runner and ports of `postern dev`. The drain time is 0, so that the processes stop
 * at once. Missing files are generated. Throws `start.config_invalid`.
 */
export async function writeEffectiveConfig(options: Options): Promise<Effective> {
  const { own, sellsOnDevnet, target, env, ports } = options;
  const tables = ports.chosen ? await movedTables(own, options.devnet, ports) : own.tables;
  const hasGeneratedEndpoints = tables.webhooks === undefined;
  const made = hasGeneratedEndpoints
    ? { webhooks: createDevWebhooks(await addressAt(ports, "webhooks"), options.secrets()) }
    : {};
  const sold = sellsOnDevnet ? await paymentTables(options) : {};
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
  const hasGeneratedRunnerSecret = runnerTable(tables)["secret"] === undefined;
  const hasConsole = tables.operator !== undefined;
  return {
    ...checkedIn(target, env),
    dir: target,
    hasGeneratedEndpoints,
    variables: variablesIn(tables.webhooks),
    sellsOnDevnet,
    hasGeneratedRunnerSecret,
    deliverTo,
    hasConsole,
  };
}

function variablesIn(webhooks: Table | undefined): (string | undefined)[] {
  const endpoints = (webhooks?.["endpoints"] ?? []) as Table[];
  return endpoints.map(({ secret }) => /^env:([A-Za-z_]\w*)$/.exec(String([secret].flat()[0]))?.[1]);
}

/**
 * Returns whether gateways accept results of long jobs from runners ("deliveries"). If the operator's files do not say
 * it, they do, unless an additional runner lacks a secret. A gateway that accepts deliveries would then not start.
 */
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
    address: await addressAt(ports, "x402"),
    serviceId,
    secrets,
    unknownJobs: ownRunner !== undefined,
  });
  const listens = {
    grpc: await addressAt(ports, "pricingGrpc"),
    http: await addressAt(ports, "pricingHttp"),
  };
  const engine = createDevPricing(devnet, { ...listens, secrets }, target);
  return { x402: { ...x402, ...engine.x402 }, pricing: engine.pricing, job_pricing };
}

/**
 * Returns the configuration of the runner that gets the calls, from the operator's table. If it is the reference runner,
 * the table also gets the address on which it listens. The table's own Redis is removed, so that the runner uses that of
 * `postern dev`.
 */
async function adaptedRunner(
  { redis: _redis, ...own }: Table,
  { ownRunner, ports, secrets }: Options,
): Promise<Table> {
  const secret = own["secret"] ?? secrets().runner;
  if (ownRunner !== undefined) return { ...own, secret, url: ownRunner };
  const { url, bind_address: bound } = own as { url?: string; bind_address?: string };
  if (url !== undefined && !ports.chosen) return { ...own, secret };
  const address = ports.chosen || bound === undefined ? await addressAt(ports, "runner") : bound;
  return { ...own, secret, bind_address: address, url: `http://${reachable(address)}` };
}

/** Returns the address to which a client connects. For a server on all interfaces, the host is 127.0.0.1. */
export function reachable(address: string): string {
  return address.replace(/^(0\.0\.0\.0|\[::\]):/, "127.0.0.1:");
}

async function addressAt(ports: Ports, place: Parameters<Ports["of"]>[0]): Promise<string> {
  return `127.0.0.1:${await ports.of(place)}`;
}
