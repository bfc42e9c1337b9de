import { exampleBody } from "../../shared/dev/config.ts";
import type { Devnet } from "../../shared/dev/devnet.ts";
import type { Part } from "../../shared/dev/process.ts";
import { readyCurl, readyPay } from "../../shared/dev/ready-commands.ts";
import type { Effective } from "./effective-config.ts";
import type { Parts } from "./parts.ts";

type Probes = Record<"webhooks" | "producer" | "runner", string> & { x402?: string; pricing?: string };

export type DevSummary = {
  webhooks: string;
  runner: string;
  redis: string;
  /** The directory of the configuration that all parts run with. */
  config: string;
  probes: Probes;
  endpoints: { path: string; auth: string; job: number; curl: string }[];
  /** The x402 gateway, where jobs are sold. */
  x402?: string;
  devnet?: { rpc: string; facilitator: string; control: string };
  /** The pricing engine: where gRPC is spoken, and HTTP. */
  pricing?: { grpc: string; http: string };
  /** What is sold: where the price is to be read and, on a devnet, a command that buys. */
  jobs: { url: string; price: string; pay?: string }[];
};

type Running = { parts: Parts; redisUrl: string; devnet: Devnet | undefined };

/** Where everything is, and a command for each endpoint and each job that is sold. */
export function summarise(config: Effective, { parts, redisUrl, devnet }: Running): DevSummary {
  const { webhooks, producer, runner, x402, pricing } = parts;
  const probe = (part: Part) => `http://${part.opsAddress ?? part.address}/readyz`;
  return {
    webhooks: `http://${webhooks.address}`,
    runner: `http://${runner.address}`,
    redis: redisUrl,
    config: config.dir,
    probes: {
      webhooks: probe(webhooks),
      producer: probe(producer),
      runner: probe(runner),
      ...(x402 && { x402: probe(x402) }),
      ...(pricing && { pricing: probe(pricing) }),
    },
    endpoints: endpointsOf(config, reachable(webhooks.address)),
    ...(x402 && { x402: `http://${x402.address}` }),
    ...(devnet && { devnet: placesOf(devnet) }),
    ...(pricing && { pricing: enginePlaces(pricing) }),
    jobs: x402 === undefined ? [] : jobsOf(config, { address: reachable(x402.address), devnet }),
  };
}

function endpointsOf({ webhooks, madeUp }: Effective, address: string): DevSummary["endpoints"] {
  return (webhooks?.endpoints ?? []).map((endpoint) => ({
    path: endpoint.path,
    auth: endpoint.auth,
    job: endpoint.job_id,
    curl: readyCurl(endpoint, { address, body: exampleBody(endpoint.job_id), showSecret: madeUp }),
  }));
}

type Shop = { address: string; devnet: Devnet | undefined };

function jobsOf({ prices }: Effective, { address, devnet }: Shop): DevSummary["jobs"] {
  const payerKey = devnet?.payers[0]?.privateKey;
  return [...prices.values()].map(({ serviceId, jobIndex }) => {
    const url = `http://${address}/x402/jobs/${serviceId}/${jobIndex}`;
    return {
      url,
      price: `${url}/price`,
      ...(payerKey && { pay: readyPay({ url, jobId: jobIndex, payerKey }) }),
    };
  });
}

function enginePlaces({ address, process }: Part): NonNullable<DevSummary["pricing"]> {
  const http = process.events("service.started").at(-1)?.["httpAddress"];
  return { grpc: address, http: `http://${reachable(String(http))}` };
}

function placesOf({ rpcUrl, facilitatorUrl, controlUrl }: Devnet): NonNullable<DevSummary["devnet"]> {
  return { rpc: rpcUrl, facilitator: facilitatorUrl, control: controlUrl };
}

/** The summary as a text for a terminal. */
export function describe(summary: DevSummary): string {
  const { webhooks, runner, redis, config, probes, endpoints, ...paid } = summary;
  const curls = endpoints.flatMap(({ path, auth, job, curl }) => [
    `  ${path}  (${auth}, job ${job})`,
    `    ${curl}`,
    "",
  ]);
  return [
    "",
    row("webhooks gateway", webhooks, `ready: ${probes.webhooks}`),
    ...(paid.x402 === undefined ? [] : [row("x402 gateway", paid.x402, `ready: ${probes.x402}`)]),
    ...engineRows(paid),
    row("producer", "", `ready: ${probes.producer}`),
    row("runner", runner, `ready: ${probes.runner}`),
    row("redis", redis),
    `  ${"look inside".padEnd(18)}postern status --config-dir ${config}  (as failed list, payments list)`,
    ...devnetRows(paid.devnet),
    "",
    ...curls,
    ...paid.jobs.flatMap(({ url, price, pay }) => [
      `  ${new URL(url).pathname}  (price: ${price})`,
      ...(pay === undefined ? [] : [`    ${pay}`]),
      "",
    ]),
    "Ctrl-C ends all of it.",
    "",
  ].join("\n");
}

function devnetRows(devnet: DevSummary["devnet"]): string[] {
  if (devnet === undefined) return [];
  return [row("chain", devnet.rpc), row("facilitator", devnet.facilitator, `faults: ${devnet.control}`)];
}

function engineRows({ pricing }: Pick<DevSummary, "pricing">): string[] {
  return pricing === undefined ? [] : [row("pricing engine", pricing.http, `gRPC: ${pricing.grpc}`)];
}

function row(name: string, address: string, more = ""): string {
  return `  ${name.padEnd(18)}${address.padEnd(28)}${more}`.trimEnd();
}

/** An address bound on all interfaces, as one that can be asked. */
function reachable(address: string): string {
  return address.replace(/^(0\.0\.0\.0|\[::\]):/, "127.0.0.1:");
}
