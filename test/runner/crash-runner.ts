// A runner whose jobs, 1 short and 2 long, leave one line per run in EFFECTS_FILE. Arguments: Redis' URL, an address.
import { appendFileSync } from "node:fs";
import { type Call, createRouter, createRunner } from "../../services/runner/runner.ts";
import { Secret } from "../../shared/crypto/secret.ts";
import { runService } from "../../shared/lifecycle/run-service.ts";
import { connectForRequests } from "../../shared/redis/connect.ts";

const { env } = process;
const [redisUrl = "", address = ""] = process.argv.slice(2);

const leaveTrace = ({ callId }: Pick<Call<undefined, unknown>, "callId">) =>
  appendFileSync(env["EFFECTS_FILE"] ?? "", `${JSON.stringify({ callId })}\n`);

process.exitCode = await runService("runner", { env, pretty: false }, async ({ log, shutdown }) => {
  const redis = connectForRequests(new Secret(redisUrl), log);
  shutdown.defer("redis", () => redis.disconnect());
  const jobs = createRouter()
    .job(1, {
      name: "short",
      handler(call) {
        leaveTrace(call);
        return { body: "done" };
      },
    })
    .job(2, { name: "long", long: true, handler: async (call) => leaveTrace(call) });
  const runner = createRunner({ jobs, redis, leaseMs: 600, log });
  shutdown.defer("runner", () => runner.close());
  log.info("service.started", { address: (await runner.listen(address)).address });
  return {};
});
