// A runner as a developer would write it. Its jobs leave a trace outside of Redis: one line for each effect in
// EFFECTS_FILE.

import { appendFileSync } from "node:fs";
import { composeRunner, createRouter } from "../../services/runner/runner.ts";
import { loadConfig } from "../../shared/config/config-dir.ts";
import { readWebhooks } from "../../shared/config/read-webhooks.ts";
import { toControlTable, toRedisTarget } from "../../shared/config/redis-toml.ts";
import { createServedPart } from "../../shared/part/part.ts";
import { sha256Hex } from "../../shared/platform/crypto/compare.ts";
import { runService } from "../../shared/platform/lifecycle/run-service.ts";
import { connectForRequests } from "../../shared/redis/connect.ts";
import { runnerPrefixOf } from "../../shared/redis/keys.ts";

const { env } = process;
const configDir = process.argv[process.argv.indexOf("--config-dir") + 1] ?? "config";

process.exitCode = await runService("runner", { env, pretty: false }, async ({ log, shutdown }) => {
  const { postern } = loadConfig(readWebhooks, { dir: configDir, env });
  const table = postern.runner.redis ?? toControlTable(postern.redis);
  const redis = connectForRequests(toRedisTarget(table, runnerPrefixOf(postern.redis.name)), log);
  shutdown.defer("redis", () => redis.disconnect());
  const leaveTrace = (callId: string, body: Buffer) =>
    appendFileSync(env["EFFECTS_FILE"] ?? "", `${JSON.stringify({ callId, sha256: sha256Hex(body) })}\n`);
  const effect = (name: string) => ({
    name,
    handler({ callId, body }: { callId: string; body: Buffer }) {
      leaveTrace(callId, body);
      return { json: { done: callId } };
    },
  });
  const jobs = createRouter()
    .job(1, effect("effect"))
    .job(3, effect("delegated-effect"))
    .job(2, {
      name: "long-effect",
      long: true,
      handler({ callId, body }) {
        leaveTrace(callId, body);
        return { json: { done: callId } };
      },
    });
  const runner = createServedPart(composeRunner({ jobs, postern, redis, log }), { log, async end() {} });
  shutdown.defer("runner", () => runner.close());
  const { address } = await runner.listen(postern.runner.bind_address);
  log.info("service.started", { address });
  return {};
});
