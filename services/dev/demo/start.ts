import { randomBytes } from "node:crypto";
import type { ConfigTables } from "../../../shared/config/config-tables.ts";
import { createDevWebhooks, DEV_JOBS, newDevSecrets, newSecret } from "../../../shared/dev/config.ts";
import { freePort } from "../../../shared/dev/free-port.ts";
import { untilSelling } from "../../../shared/dev/stack.ts";
import { receiverSecret } from "../../../shared/platform/crypto/callback-keys.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import type { Shutdown } from "../../../shared/platform/lifecycle/run-service.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { startDevStack } from "../dev-stack.ts";
import { type Demo, DemoLog } from "./demo.ts";
import { openRedisView, requireUnused } from "./redis-view.ts";
import { createShop } from "./shop.ts";
import { show } from "./show.ts";

const SERVICE_ID = "0";

/**
 * Environment variable with the secret that runner and producer share. A chapter restarts the runner with another value,
 * so that the runner refuses calls.
 */
export const RUNNER_SECRET = "POSTERN_DEMO_RUNNER_SECRET";
/** Path of the endpoint of a long job. Its requests may name a URL that gets a callback when the job ends. */
export const LONG_JOB_PATH = "/hooks/long-job";
/** Path of the endpoint that receives the callbacks. */
export const RECEIVER_PATH = "/hooks/standard";

/**
 * Starts the same processes as `postern dev`, with endpoints and settings that the chapters need. Throws if the Redis of
 * REDIS_URL is in use. If anvil is not installed, it prints the reason, and the demo sells no jobs.
 */
export async function startDemo(env: NodeJS.ProcessEnv, shutdown: Shutdown) {
  if (env["REDIS_URL"]) await requireUnused(await openRedisView(env["REDIS_URL"], shutdown));
  const log = new DemoLog();
  const secrets = newDevSecrets();
  const partEnv = {
    ...env,
    [RUNNER_SECRET]: secrets.runner,
    POSTERN_LOG_LEVEL: "info",
    POSTERN_LOG_CALLS: "1",
  };
  const stack = await startDevStack({
    own: { tables: tables(createDevWebhooks(`127.0.0.1:${await freePort()}`, secrets)) },
    sellsOnDevnet: true,
    runner: undefined,
    serviceId: SERVICE_ID,
    // A `postern dev` that is started now could take one of the usual ports while the demo restarts a process. So the demo
    // uses free ports.
    ports: { chosen: false, moved: new Map(), of: () => freePort() },
    secrets: () => secrets,
    env: partEnv,
    onLine: (_part, line) => log.take(line),
    log: {
      ...silentLogger,
      warn: (_event, fields) => show.output(String(fields?.["reason"]).split("\n")),
    },
    shutdown,
  });
  const { devnet, parts, redisUrl } = stack;
  const { runner, x402 } = parts;
  if (runner === undefined) throw new Error("the reference runner was not started");
  if (x402 !== undefined) await untilSelling(x402);
  const redis = await openRedisView(redisUrl, shutdown);
  const demo: Demo = { stack, runner, redis, log, webhooks: [], env: partEnv };
  return { demo, shop: devnet && x402 && createShop(demo, devnet, x402, SERVICE_ID) };
}

/**
 * Returns the configuration. The producer tries a failed call again within a second. Its leases on calls (`lock_ms`) are
 * short, so that another producer soon takes over the calls of a killed one.
 */
function tables(webhooks: ReturnType<typeof createDevWebhooks>): ConfigTables {
  const { echo, keccak256, slow } = DEV_JOBS;
  const gateway = `http://${webhooks.bind_address}`;
  const callbacksSecret = newWhsec();
  const ofReceiver = receiverSecret(new Secret(callbacksSecret), `${gateway}${RECEIVER_PATH}`);
  const route_by = { header: "X-GitHub-Event", jobs: { push: echo, release: keccak256 } };
  return {
    postern: {
      runner: { secret: `env:${RUNNER_SECRET}`, timeout_ms: 2000 },
      producer: { attempts: 40, lock_ms: 3000, backoff: { base_ms: 200, cap_ms: 1000 } },
      callbacks: { secret: callbacksSecret, allow_cidrs: ["127.0.0.1"], timeout_ms: 2000 },
    },
    webhooks: {
      ...webhooks,
      endpoints: [
        ...webhooks.endpoints,
        { path: LONG_JOB_PATH, job_id: slow, auth: "none", callback_hosts: [gateway] },
        // These endpoints use the presets of real senders. Each secret has the format that its sender uses.
        { path: "/hooks/github", preset: "github", route_by, secret: newSecret() },
        { path: "/hooks/stripe", preset: "stripe", job_id: echo, secret: newWhsec() },
        { path: "/hooks/slack", preset: "slack", job_id: echo, secret: newSecret() },
        { path: RECEIVER_PATH, preset: "standard-webhooks", job_id: echo, secret: ofReceiver },
      ],
    },
  };
}

function newWhsec(): string {
  return `whsec_${randomBytes(32).toString("base64")}`;
}
