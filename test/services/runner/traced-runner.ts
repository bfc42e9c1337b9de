// A runner with the traced jobs. Its arguments are the URL of Redis and the file to which the jobs append.
import { composeRunner } from "../../../services/runner/runner.ts";
import { posternToml } from "../../../shared/config/postern-toml.ts";
import { createServedPart } from "../../../shared/part/part.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { runService } from "../../../shared/platform/lifecycle/run-service.ts";
import { connectForRequests } from "../../../shared/redis/connect.ts";
import { LEASE_MS, tracedJobs } from "./traced-jobs.ts";

const { env } = process;
const [redisUrl = "", effectsFile = ""] = process.argv.slice(2);

process.exitCode = await runService("runner", { env, pretty: false }, async ({ log, shutdown }) => {
  const redis = connectForRequests({ url: new Secret(redisUrl) }, log);
  shutdown.defer("redis", () => redis.disconnect());
  const postern = posternToml({ env: {} }).parse({});
  const composed = composeRunner({
    postern: { ...postern, runner: { ...postern.runner, lease_ms: LEASE_MS } },
    ...{ jobs: tracedJobs(effectsFile), redis, log },
  });
  const runner = createServedPart(composed, { log, async end() {} });
  shutdown.defer("runner", () => runner.close());
  log.info("service.started", { address: (await runner.listen("127.0.0.1:0")).address });
  return {};
});
