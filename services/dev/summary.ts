import { exampleBody } from "../../shared/dev/config.ts";
import type { Devnet } from "../../shared/dev/devnet.ts";
import type { Part } from "../../shared/dev/process.ts";
import { hasReadyCurl, readyCurl, readyPay } from "../../shared/dev/ready-commands.ts";
import { readinessUrl } from "../../shared/dev/stack.ts";
import type { Effective } from "./effective-config.ts";

type Probes = Record<"webhooks" | "producer" | "runner", string> & { x402?: string; pricing?: string };

type DevSummary = {
  webhooks: string;
  runner: string;
  redis: string;
  /** The directory of the configuration that all parts run with. */
  config: string;
  probes: Probes;
  /** `job` is absent if the event chooses it, and `curl` if only the sender itself can sign. */
  endpoints: { path: string; auth: string; job?: number; curl?: string }[];
  /** The x402 gateway, if jobs are sold. */
  x402?: string;
  devnet?: { rpc: string; facilitator: string; control: string };
  /** The pricing engine: its gRPC server and its HTTP server. */
  pricing?: { grpc: string; http: string };
  /** What is sold: the URL of the job, of its price and of what it takes, and, on a devnet, a command that buys it. */
  jobs: { name?: string; url: string; price: string; schema?: string; pay?: string }[];
};

export type Parts = Record<"webhooks" | "producer" | "runner", Part> &
  Record<"x402" | "pricing", Part | undefined>;

type Running = { config: Effective; parts: Parts; redisUrl: string; devnet: Devnet | undefined };

/** Where everything is, and a command for each endpoint and each job that is sold. */
export function summarise({ config, parts, redisUrl, devnet }: Running): DevSummary {
  const { webhooks, producer, runner, x402, pricing } = parts;
  return {
    webhooks: `http://${webhooks.address}`,
    runner: `http://${runner.address}`,
    redis: redisUrl,
    config: config.dir,
    probes: {
      webhooks: readinessUrl(webhooks),
      producer: readinessUrl(producer),
      runner: readinessUrl(runner),
      ...(x402 && { x402: readinessUrl(x402) }),
      ...(pricing && { pricing: readinessUrl(pricing) }),
    },
    endpoints: endpointsOf(config, reachable(webhooks.address)),
    ...(x402 && { x402: `http://${x402.address}` }),
    ...(devnet && {
      devnet: { rpc: devnet.rpcUrl, facilitator: devnet.facilitatorUrl, control: devnet.controlUrl },
    }),
    ...(pricing && {
      pricing: { grpc: pricing.address, http: `http://${reachable(httpAddressOf(pricing))}` },
    }),
    jobs: x402 === undefined ? [] : jobsOf(config, reachable(x402.address), devnet?.payers[0]?.privateKey),
  };
}

function endpointsOf({ webhooks, madeUp }: Effective, address: string): DevSummary["endpoints"] {
  return (webhooks?.endpoints ?? []).map((endpoint) => ({
    path: endpoint.path,
    auth: endpoint.preset ?? endpoint.auth,
    ...(endpoint.job_id !== undefined && { job: endpoint.job_id }),
    ...(hasReadyCurl(endpoint) && {
      curl: readyCurl(endpoint, { address, body: exampleBody(endpoint.job_id), showSecret: madeUp }),
    }),
  }));
}

function jobsOf({ prices }: Effective, address: string, payerKey: string | undefined): DevSummary["jobs"] {
  return [...prices.values()].map(({ serviceId, jobIndex, name, input }) => {
    const url = `http://${address}/x402/jobs/${serviceId}/${jobIndex}`;
    return {
      ...(name !== undefined && { name }),
      url,
      price: `${url}/price`,
      ...(input && { schema: `${url}/schema` }),
      ...(payerKey && { pay: readyPay(url, jobIndex, payerKey) }),
    };
  });
}

function httpAddressOf({ process }: Part): string {
  return String(process.events("service.started").at(-1)?.["httpAddress"]);
}

/** The summary as a text for a terminal. */
export function describe(summary: DevSummary): string {
  const { webhooks, runner, redis, config, probes, endpoints, ...paid } = summary;
  const curls = endpoints.flatMap(({ path, auth, job, curl }) => [
    `  ${path}  (${auth}, job ${job ?? "by event"})`,
    ...(curl === undefined ? [] : [`    ${curl}`]),
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
    ...paid.jobs.flatMap(({ name, url, price, schema, pay }) => [
      `  ${new URL(url).pathname}  ${name === undefined ? "" : `${name}  `}(price: ${price}${schema === undefined ? "" : `, takes: ${schema}`})`,
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
