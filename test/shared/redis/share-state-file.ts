import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { connectForWork } from "../../../shared/redis/connect.ts";
import { Deployment } from "../../../shared/redis/deployment.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";

/** Makes 300 starts of a deployment with the state file in the second argument. Each start reads and writes that file. */
const [url = "", stateFile = ""] = process.argv.slice(2);
const redis = connectForWork({ url: new Secret(url) }, silentLogger);
for (let start = 0; start < 300; start++)
  await new Deployment(
    { id: "2026-01-01-shop", stateFile },
    {
      ...silentLogger,
      warn(event, fields) {
        throw new Error(`${event}: ${JSON.stringify(fields)}`);
      },
    },
  ).createCheck(partitionOf(redis), { claims: false })();
redis.disconnect();
