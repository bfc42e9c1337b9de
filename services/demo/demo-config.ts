import { freePort } from "../../shared/child-process/free-port.ts";
import type { ConfigTables } from "../../shared/config/write-config.ts";
import { createDevConfig } from "../../shared/dev-config/dev-config.ts";

/** The variable that holds the secret of runner and producer, so that one of them can be started with another. */
export const RUNNER_SECRET = "POSTERN_DEMO_RUNNER_SECRET";

/**
 * The configuration of the demo: endpoints with secrets made for this run, retries within a second, and short locks, so
 * that a killed producer's calls are taken back soon.
 */
export async function demoConfig(redisUrl: string): Promise<ConfigTables & { runnerSecret: string }> {
  const runner = `127.0.0.1:${await freePort()}`;
  const { postern, webhooks } = createDevConfig({ redisUrl, webhooks: "127.0.0.1:0", runner });
  return {
    runnerSecret: postern.runner.secret,
    webhooks,
    postern: {
      ...postern,
      runner: { ...postern.runner, secret: `env:${RUNNER_SECRET}`, timeout_ms: 2000 },
      producer: { attempts: 40, lock_ms: 3000, backoff: { base_ms: 200, cap_ms: 1000 } },
    },
  };
}
