import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { type ConfigTables, writeConfig } from "../../shared/config/config-tables.ts";
import type { EndpointToml } from "../../shared/config/endpoint-toml.ts";
import { loadConfig } from "../../shared/config/load-config.ts";
import { Secret } from "../../shared/crypto/secret.ts";
import {
  createDevConfig,
  createDevPayments,
  createDevPricing,
  DEV_JOBS,
  type DevSecrets,
  newDevSecrets,
  newSecret,
} from "../../shared/dev/config.ts";
import { type Devnet, type DevnetPart, provideDevnet } from "../../shared/dev/devnet.ts";
import { freePort } from "../../shared/dev/free-port.ts";
import type { Part } from "../../shared/dev/process.ts";
import { provideRedis } from "../../shared/dev/redis.ts";
import { createStack, type ServiceName } from "../../shared/dev/stack.ts";
import { beforeDeadline } from "../../shared/dev/wait.ts";
import type { Shutdown } from "../../shared/lifecycle/run-service.ts";
import { type Receiver, startReceiver } from "./receiver.ts";
import { openQueueView, PartLog, type QueueView } from "./views.ts";

/** This variable holds the secret of runner and producer, so that one of them can be started with another secret. */
export const RUNNER_SECRET = "POSTERN_DEMO_RUNNER_SECRET";

/** The service that all jobs belong to. */
export const SERVICE_ID = "7";
/** Of this endpoint each request may say who is told of its call's end. */
export const TOLD_PATH = "/hooks/told";
/** Sold only to callers whom the devnet's registry permits. */
export const RESTRICTED_JOB = DEV_JOBS.slow;

/** Everything outside of this process that the demo runs on. */
export type World = {
  readonly redisUrl: string;
  /** Whether Redis was started for the demo; else it is REDIS_URL's. */
  readonly ownRedis: boolean;
  readonly configDir: string;
  readonly endpoints: readonly EndpointToml[];
  readonly runnerSecret: Secret;
  readonly receiver: Receiver;
  /** The environment of the parts and of `postern`. */
  readonly env: NodeJS.ProcessEnv;
  readonly queue: QueueView;
  /** The chain and the facilitator that jobs are paid with, or what to install to have them. */
  readonly devnet: DevnetPart | { missing: string };
  readonly logs: Readonly<Record<ServiceName, PartLog>>;
  /** Starts a part of the built program and resolves once it listens. */
  start(service: ServiceName, args?: readonly string[]): Promise<Part>;
};

/** A part that has not ended by itself by then is killed. */
const END_DEADLINE_MS = 10_000;
/** A payment is deep enough in the chain after two blocks. */
const BLOCK_TIME_MS = 250;

/**
 * Provides Redis, a devnet and a configuration. Throws if the Redis of REDIS_URL is in use: the demo's runner would run the
 * calls of others.
 */
export async function createWorld(
  home: string,
  { POSTERN_FAILPOINT: _, ...env }: NodeJS.ProcessEnv,
  shutdown: Shutdown,
): Promise<World> {
  const endLater = (name: string, part: Part) => shutdown.defer(name, () => endPart(name, part));
  const redis = await provideRedis({ env, dir: join(home, "redis"), detached: true });
  shutdown.defer("redis", () => redis.private?.stop());
  const queue = await openQueueView(redis.url);
  shutdown.defer("queue view", () => queue.close());
  if (redis.private === undefined) await queue.assertUnused();

  const devnet = await provideDevnet({
    env: { ...env, POSTERN_LOG_LEVEL: "info" },
    ports: { rpc: 0, facilitator: 0, control: 0 },
    blockTimeMs: BLOCK_TIME_MS,
  });
  if (!("missing" in devnet)) endLater("devnet", devnet.part);

  const configDir = join(home, "config");
  const secrets = newDevSecrets();
  const webhooksOps = `127.0.0.1:${await freePort()}`;
  const receiver = await startReceiver(shutdown);
  const { tables, runnerSecret } = await demoConfig(redis.url, webhooksOps, secrets, receiver);
  const paid = "missing" in devnet ? {} : await demoPayments(devnet.devnet, configDir, secrets);
  writeConfig(configDir, { ...tables, ...paid });

  const partEnv = { ...env, [RUNNER_SECRET]: runnerSecret, POSTERN_LOG_LEVEL: "info" };
  const logs = {
    runner: new PartLog(),
    producer: new PartLog(),
    webhooks: new PartLog(),
    x402: new PartLog(),
    pricing: new PartLog(),
    operator: new PartLog(),
  };
  const onLine = (part: string, line: string) => logs[part as ServiceName].take(line);
  const stack = createStack({ configDir, env: partEnv, detached: true, onLine });
  return {
    redisUrl: redis.url,
    ownRedis: redis.private !== undefined,
    configDir,
    endpoints: loadConfig({ dir: configDir, env: partEnv }).webhooks?.endpoints ?? [],
    runnerSecret: new Secret(runnerSecret),
    receiver,
    env: partEnv,
    queue,
    devnet,
    logs,
    async start(service, args = []) {
      const ops = service === "webhooks" ? { opsAddress: webhooksOps } : {};
      const part = await stack.start(service, { args, ...ops });
      endLater(service, part);
      return part;
    },
  };
}

function endPart(name: string, part: Part): Promise<unknown> {
  const ended = beforeDeadline(`${name} ends`, part.kill("SIGTERM"), END_DEADLINE_MS);
  return ended.catch(() => part.kill("SIGKILL"));
}

/** Retries come within a second, and locks are short, so that a killed producer's calls are taken back soon. */
async function demoConfig(
  redisUrl: string,
  /** Where the runner delivers. */
  webhooksOps: string,
  secrets: DevSecrets,
  receiver: Receiver,
): Promise<{ tables: ConfigTables; runnerSecret: string }> {
  const runner = `127.0.0.1:${await freePort()}`;
  const { postern, webhooks } = createDevConfig({ redisUrl, webhooks: "127.0.0.1:0", runner }, secrets);
  const tables = {
    webhooks: {
      ...webhooks,
      endpoints: [...webhooks.endpoints, toldEndpoint(receiver), ...presetEndpoints()],
    },
    postern: {
      ...postern,
      runner: {
        ...postern.runner,
        secret: `env:${RUNNER_SECRET}`,
        timeout_ms: 2000,
        deliver_to: [`http://${webhooksOps}`],
      },
      results: { deliveries: true, secret: randomBytes(32).toString("hex") },
      // The receiver is on this machine.
      callbacks: { secret: receiver.callbacksSecret, allow_cidrs: ["127.0.0.1"], timeout_ms: 2000 },
      producer: { attempts: 40, lock_ms: 3000, backoff: { base_ms: 200, cap_ms: 1000 } },
    },
  };
  return { tables, runnerSecret: postern.runner.secret };
}

/** Its sender says who is to be told of the end, and may watch the job until then. */
function toldEndpoint({ origin }: Receiver) {
  const callbacks = { callback_hosts: [origin], keep_result: true };
  return { path: TOLD_PATH, job_id: DEV_JOBS.slow, auth: "none", ...callbacks };
}

/** Endpoints for senders as they are, with secrets of the form that each of them gives out. */
function presetEndpoints() {
  return [
    {
      path: "/hooks/stripe",
      preset: "stripe",
      job_id: DEV_JOBS.echo,
      secret: `whsec_${randomBytes(16).toString("hex")}`,
    },
    {
      path: "/hooks/slack",
      preset: "slack",
      job_id: DEV_JOBS.echo,
      secret: randomBytes(16).toString("hex"),
    },
    {
      path: "/hooks/standard",
      preset: "standard-webhooks",
      job_id: DEV_JOBS.echo,
      secret: `whsec_${randomBytes(24).toString("base64")}`,
    },
    {
      path: "/hooks/alchemy",
      preset: "alchemy",
      job_id: DEV_JOBS.keccak256,
      secret: `whsec_${randomBytes(12).toString("hex")}`,
    },
    {
      path: "/hooks/github",
      preset: "github",
      route_by: {
        header: "X-GitHub-Event",
        jobs: { push: DEV_JOBS.echo, release: DEV_JOBS.keccak256 },
      },
      secret: newSecret(),
    },
  ];
}

/** One job is not for everybody. */
async function demoPayments(devnet: Devnet, dir: string, secrets: DevSecrets): Promise<ConfigTables> {
  const address = `127.0.0.1:${await freePort()}`;
  const engine = createDevPricing(devnet, { grpc: "127.0.0.1:0", http: "127.0.0.1:0", secrets }, dir);
  const { x402, job_pricing } = createDevPayments(devnet, { address, serviceId: SERVICE_ID, secrets });
  const restricted = {
    service_id: Number(SERVICE_ID),
    job_index: RESTRICTED_JOB,
    invocation_mode: "restricted_paid",
    auth_mode: "payer_is_caller",
    rpc_url: devnet.rpcUrl,
    contract: devnet.callerRegistry,
  };
  return {
    x402: { ...x402, ...engine.x402, job_policies: [restricted] },
    pricing: engine.pricing,
    job_pricing,
  };
}
