import { expect, test } from "vitest";
import { toIngressLimits } from "../../../shared/config/postern-toml.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { Backpressure } from "../../../shared/ingress/backpressure.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { createReadDepth } from "../../../shared/queue/depth.ts";
import { connectForRequests } from "../../../shared/redis/connect.ts";
import { DurableRedis } from "../../../shared/redis/durable.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { testPostern } from "../../support/test-postern.ts";

const redis = useRedis();
const ends = useEnds();

test("a gateway that can no longer read its queues soon reports them as unknown, until it can read them again", async () => {
  const own = connectForRequests({ url: new Secret(redis.url) }, silentLogger);
  const partition = partitionOf(own);
  const durable = new DurableRedis({ redis: own, mode: "strict", log: silentLogger });
  const backpressure = new Backpressure({
    ...{
      durable,
      partition,
      limits: toIngressLimits(testPostern()),
      clock: systemClock,
      log: silentLogger,
    },
    readDepth: createReadDepth(partition, "webhook"),
    everyMs: 10,
  });
  ends.defer(() => {
    backpressure.stop();
    durable.stop();
    own.disconnect();
  });
  const isKnown = () => backpressure.latest() !== undefined;
  await eventually("the queues were seen", isKnown);

  await redis.client.set(partition.keys.queues, "no list of queues");
  await eventually("they are not known", () => !isKnown());
  expect(durable.isUsable).toBe(true);
  await redis.client.del(partition.keys.queues);
  await eventually("they were seen again", isKnown);
});
