import type { ConfigTables } from "../../shared/config/write-config.ts";
import { createDevConfig, createDevPayments, createDevPricing, DEV_JOBS } from "../../shared/dev/config.ts";
import type { Devnet } from "../../shared/dev/devnet.ts";
import { freePort } from "../../shared/dev/free-port.ts";

/** The variable that holds the secret of runner and producer, so that one of them can be started with another. */
export const RUNNER_SECRET = "POSTERN_DEMO_RUNNER_SECRET";

/** Whose jobs are called and sold. */
export const SERVICE_ID = "7";
/** Sold only to callers whom the devnet's registry permits. */
export const RESTRICTED_JOB = DEV_JOBS.slow;

type Options = {
  redisUrl: string;
  /** Where the configuration is written. */
  dir: string;
  /** Where jobs are to be sold for its tokens. */
  devnet: Devnet | undefined;
};

/**
 * The configuration of the demo: endpoints with secrets made for this run, retries within a second, and short locks, so
 * that a killed producer's calls are taken back soon.
 */
export async function demoConfig({
  redisUrl,
  dir,
  devnet,
}: Options): Promise<ConfigTables & { runnerSecret: string }> {
  const runner = `127.0.0.1:${await freePort()}`;
  const { postern, webhooks } = createDevConfig({ redisUrl, webhooks: "127.0.0.1:0", runner });
  return {
    runnerSecret: postern.runner.secret,
    webhooks,
    ...(devnet && (await demoPayments(devnet, dir))),
    postern: {
      ...postern,
      runner: { ...postern.runner, secret: `env:${RUNNER_SECRET}`, timeout_ms: 2000 },
      producer: { attempts: 40, lock_ms: 3000, backoff: { base_ms: 200, cap_ms: 1000 } },
    },
  };
}

/** A time-out that is soon over, so that an unknown outcome is soon known, and one job that is not for everybody. */
async function demoPayments(devnet: Devnet, dir: string): Promise<ConfigTables> {
  const address = `127.0.0.1:${await freePort()}`;
  const engine = createDevPricing(devnet, { grpc: "127.0.0.1:0", http: "127.0.0.1:0" }, dir);
  const { x402, job_pricing } = createDevPayments(devnet, address, SERVICE_ID);
  const restricted = {
    service_id: Number(SERVICE_ID),
    job_index: RESTRICTED_JOB,
    invocation_mode: "restricted_paid",
    auth_mode: "payer_is_caller",
    rpc_url: devnet.rpcUrl,
    contract: devnet.callerRegistry,
  };
  return {
    x402: { ...x402, ...engine.x402, settle_timeout_secs: 2, job_policies: [restricted] },
    pricing: engine.pricing,
    job_pricing,
  };
}
