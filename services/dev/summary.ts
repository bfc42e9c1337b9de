import type { AcceptedToken } from "../../shared/config/x402-toml.ts";
import { exampleBody } from "../../shared/dev/config.ts";
import type { Part } from "../../shared/dev/process.ts";
import { readyCurl, readyPay, readySend } from "../../shared/dev/ready-commands.ts";
import { readinessUrl } from "../../shared/dev/stack.ts";
import type { JobInput } from "../../shared/platform/json-schema/job-input.ts";
import { tokenAmount } from "../../shared/pricing/prices.ts";
import type { DevStack, OwnRunner } from "./dev-stack.ts";
import { type Effective, reachable } from "./effective-config.ts";

type Probes = Record<"webhooks" | "producer" | "operator", string> & {
  runner?: string;
  x402?: string;
  pricing?: string;
};

type DevSummary = {
  webhooks: string;
  runner: string;
  /** Facts about the operator's own runner. Absent if the reference runner runs. */
  ownRunner?: { answers: boolean; secret?: string; deliverTo?: string };
  redis: string;
  /** URL of the operator's console, for a browser. */
  operator: string;
  /** Directory with the configuration files that all processes of the stack read. */
  config: string;
  /** Command with which the user runs Postern, such as `npm run postern --`. */
  program: string;
  probes: Probes;
  /**
   * Endpoints, each with a command that sends it a webhook. `curl` is a complete curl command. If curl cannot make the
   * signature of the endpoint's sender, there is a `postern send` command in `send` instead. `job` is absent if the job
   * depends on the event.
   */
  endpoints: { path: string; auth: string; job?: number; curl?: string; send?: string }[];
  /** URL of the payment gateway, if jobs are sold. */
  x402?: string;
  devnet?: { rpc: string; facilitator: string; control: string };
  /** Addresses of the pricing engine's gRPC server and HTTP server. */
  pricing?: { grpc: string; http: string };
  /** Sentences for the user about surprises, for example that payments are off or that a process has another port. */
  notes: string[];
  /** Jobs for sale. `price` and `schema` are URLs, and `pay` is a command that buys the job with a payer of the devnet. */
  jobs: { name?: string; url: string; price: string; schema?: string; pay?: string }[];
};

/** Collects the addresses of all servers, and a command to try for each endpoint and each job for sale. */
export function summarise(
  { config, parts, ownRunner, redisUrl, devnet, notes }: DevStack,
  program: string,
): DevSummary {
  const { webhooks, producer, runner, x402, pricing, operator } = parts;
  return {
    webhooks: `http://${webhooks.address}`,
    runner: config.postern.runner.url,
    ...(ownRunner && { ownRunner: runnerNotes(ownRunner) }),
    redis: redisUrl,
    operator: `http://${reachable(operator.address)}`,
    config: config.dir,
    program,
    probes: {
      webhooks: readinessUrl(webhooks),
      producer: readinessUrl(producer),
      operator: readinessUrl(operator),
      ...(runner && { runner: readinessUrl(runner) }),
      ...(x402 && { x402: readinessUrl(x402) }),
      ...(pricing && { pricing: readinessUrl(pricing) }),
    },
    endpoints: endpointsOf(config, reachable(webhooks.address), program),
    ...(x402 && { x402: `http://${x402.address}` }),
    ...(devnet && {
      devnet: { rpc: devnet.rpcUrl, facilitator: devnet.facilitatorUrl, control: devnet.controlUrl },
    }),
    ...(pricing && {
      pricing: { grpc: pricing.address, http: `http://${reachable(httpAddressOf(pricing))}` },
    }),
    notes,
    jobs: x402
      ? jobsOf(config, reachable(x402.address), { payerKey: devnet?.payers[0]?.privateKey, program })
      : [],
  };
}

function runnerNotes({ answers, secret, deliverTo }: OwnRunner) {
  return { answers, ...(secret !== undefined && { secret }), ...(deliverTo !== undefined && { deliverTo }) };
}

function endpointsOf(
  { webhooks, hasGeneratedEndpoints, variables, dir }: Effective,
  address: string,
  program: string,
): DevSummary["endpoints"] {
  return (webhooks?.endpoints ?? []).map((endpoint, index) => {
    const body = exampleBody(endpoint.job_id);
    const curl = readyCurl(endpoint, {
      address,
      body,
      secret: hasGeneratedEndpoints ? "shown" : { variable: variables[index] },
    });
    return {
      path: endpoint.path,
      auth: endpoint.preset ?? endpoint.auth,
      ...(endpoint.job_id !== undefined && { job: endpoint.job_id }),
      ...(curl === undefined ? { send: readySend(endpoint.path, dir, program) } : { curl }),
    };
  });
}

type Buying = { payerKey: string | undefined; program: string };

function jobsOf(
  { prices, x402 }: Effective,
  address: string,
  { payerKey, program }: Buying,
): DevSummary["jobs"] {
  return [...prices.values()].map(({ serviceId, jobIndex, name, input, priceWei }) => {
    const url = `http://${address}/x402/jobs/${serviceId}/${jobIndex}`;
    return {
      ...(name !== undefined && { name }),
      url,
      price: `${url}/price`,
      ...(input && { schema: `${url}/schema` }),
      ...(payerKey && {
        pay: readyPay(url, {
          body: bodyFor(input),
          payerKey,
          program,
          price: highestPrice(priceWei, x402?.accepted_tokens ?? []),
        }),
      }),
    };
  });
}

/**
 * Returns the price in the token in which it is highest, in whole tokens, rounded up. Tokens whose rate changes are left
 * out.
 */
function highestPrice(priceWei: bigint, tokens: readonly AcceptedToken[]): bigint {
  const prices = tokens.flatMap(({ rate_per_native_unit: rate, markup_bps }) =>
    typeof rate === "string"
      ? [tokenAmount(priceWei, { decimals: 0, markup_bps, rate_per_native_unit: rate })]
      : [],
  );
  return prices.reduce((highest, price) => (price > highest ? price : highest), 0n);
}

/** Returns a body that the job accepts. */
function bodyFor(input: JobInput | undefined): string {
  return input === undefined ? "hi" : JSON.stringify(input.example);
}

function httpAddressOf({ process }: Part): string {
  return String(process.events("service.started").at(-1)?.["httpAddress"]);
}

/** Writes the summary as text for a terminal. */
export function describe(summary: DevSummary): string {
  const { webhooks, redis, operator, config, program, probes, endpoints, notes, ...paid } = summary;
  const webhookLines = endpoints.flatMap(({ path, auth, job, curl, send }) => [
    `  ${path}  (auth: ${auth}, job: ${job ?? "chosen by the event"})`,
    `    ${curl ?? send}`,
    "",
  ]);
  return [
    "",
    row("webhooks gateway", webhooks, `ready: ${probes.webhooks}`),
    ...(paid.x402 === undefined ? [] : [row("payment gateway", paid.x402, `ready: ${probes.x402}`)]),
    ...engineRows(paid),
    row("producer", "", `ready: ${probes.producer}`),
    ...runnerRows(summary),
    row("redis", redis),
    row("console", operator, "open it in a browser"),
    `  ${"status".padEnd(18)}${program} status --config-dir ${config}  (or another command, such as failed list)`,
    ...devnetRows(paid.devnet),
    ...notes.map((note) => row("note", note)),
    "",
    ...webhookLines,
    ...paid.jobs.flatMap(({ name, url, price, schema, pay }) => [
      `  ${new URL(url).pathname}  ${name === undefined ? "" : `${name}  `}(price: ${price}${schema === undefined ? "" : `, schema: ${schema}`})`,
      ...(pay === undefined ? [] : [`    ${pay}`]),
      "",
    ]),
    "Press Ctrl-C to stop everything.",
    "",
  ].join("\n");
}

function runnerRows({ runner, ownRunner, probes }: DevSummary): string[] {
  if (ownRunner === undefined) return [row("runner", runner, `ready: ${probes.runner}`)];
  const { answers, secret, deliverTo } = ownRunner;
  const signed =
    secret === undefined
      ? "runner.secret of your postern.toml"
      : "this secret; set it in the runner's terminal:";
  return [
    row("your runner", runner, answers ? "" : "does not answer yet; calls wait until it does"),
    row("", `requests are signed with ${signed}`),
    ...(secret === undefined ? [] : [row("", `export POSTERN_RUNNER_SECRET=${secret}`)]),
    ...(deliverTo === undefined
      ? []
      : [
          row("", "long jobs send their results to this address; set it in the runner's terminal:"),
          row("", `export POSTERN_DELIVER_TO=${deliverTo}`),
        ]),
  ];
}

function devnetRows(devnet: DevSummary["devnet"]): string[] {
  if (devnet === undefined) return [];
  return [
    row("chain", devnet.rpc),
    row("facilitator", devnet.facilitator, `control port: ${devnet.control}`),
  ];
}

function engineRows({ pricing }: Pick<DevSummary, "pricing">): string[] {
  return pricing === undefined ? [] : [row("pricing engine", pricing.http, `gRPC: ${pricing.grpc}`)];
}

function row(name: string, address: string, more = ""): string {
  return `  ${name.padEnd(18)}${address.padEnd(28)}${more}`.trimEnd();
}
