// A runner as a developer writes one, whose jobs leave a trace outside of Redis: one line per effect in EFFECTS_FILE.
import { appendFileSync } from "node:fs";
import { composeRunner, createRouter, serveRunner } from "../../services/runner/runner.ts";
import { loadConfig } from "../../shared/config/load-config.ts";
import { sha256Hex } from "../../shared/crypto/compare.ts";
import { runService } from "../../shared/lifecycle/run-service.ts";
import { connectForRequests } from "../../shared/redis/connect.ts";

const { env } = process;
const configDir = process.argv[process.argv.indexOf("--config-dir") + 1] ?? "config";

process.exitCode = await runService("runner", { env, pretty: false }, async ({ log, shutdown }) => {
  const { redis: redisConfig, runner: config } = loadConfig({ dir: configDir, env }).postern;
  const redis = connectForRequests(redisConfig.url, log);
  shutdown.defer("redis", () => redis.disconnect());
  const leaveTrace = (callId: string, body: Buffer) =>
    appendFileSync(env["EFFECTS_FILE"] ?? "", `${JSON.stringify({ callId, sha256: sha256Hex(body) })}\n`);
  const jobs = createRouter()
    .job(1, {
      name: "effect",
      handler({ callId, body }) {
        leaveTrace(callId, body);
        return { json: { done: callId } };
      },
    })
    .job(2, {
      name: "long-effect",
      long: true,
      handler({ callId, body }) {
        leaveTrace(callId, body);
        return { json: { done: callId } };
      },
    });
  const secrets = config.secret ?? [];
  const { lease_ms: leaseMs, deliver_to: deliverTo } = config;
  const composed = composeRunner({ jobs, redis, secrets, leaseMs, deliverTo, log });
  const runner = serveRunner(composed, { connection: { redis, close() {} }, log });
  shutdown.defer("runner", () => runner.close());
  const { address } = await runner.listen(config.bind_address);
  log.info("service.started", { address });
  return {};
});
