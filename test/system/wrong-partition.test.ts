import { beforeEach, expect, test } from "vitest";
import { createWebhooksGateway } from "../../services/webhooks-gateway/gateway.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { newDeploymentId } from "../../shared/redis/deployment.ts";
import type { ProcessKind } from "../../shared/telemetry/processes/process.ts";
import { usePostern } from "../fixtures/postern.ts";
import { keys, useOwnRedis } from "../fixtures/redis.ts";
import { onlyInLongRun, sample } from "../support/long-run.ts";

const redis = useOwnRedis();
const postern = usePostern();

const webhooks = { endpoints: [{ path: "/a", job_id: 1, auth: "none" as const }] };
const deployment_id = newDeploymentId();
/** Returns the keys of `[redis]` for these databases, one partition each. */
const places = (...databases: number[]) => ({
  deployment_id,
  partitions: databases.map((database) => ({ url: `${redis.url}/${database}` })),
});

/** Starts each test with a deployment of two partitions that is already in use. */
beforeEach(async () => {
  await redis.client.flushall();
  const part = createWebhooksGateway({ postern: { redis: places(0, 1) }, webhooks });
  await eventually(
    "both partitions are used",
    () => part.readiness().checks["redis"] === "2 of 2 partitions can be used",
  );
  await eventually("the second one is listed", () => redis.client.sismember(keys.partitions, "1"));
  await part.close(100);
});

function start(kind: ProcessKind, table: object) {
  postern.configure({ postern: { redis: { deployment_id, ...table }, drain_secs: 0 }, webhooks });
  const bound = kind === "producer" ? [] : ["--bind-address", "127.0.0.1:0"];
  return postern.start([kind, ...bound, "--ops-address", "127.0.0.1:0"]);
}

/** The kind of process makes no difference, so a short run starts one kind. */
const KINDS: readonly ProcessKind[] = ["webhooks", "producer", "operator"];
const WRONG = [
  [
    "two partitions are swapped",
    () => places(1, 0),
    /^Redis holds partition ([01]) of 2, but \[redis\] makes it partition (?!\1)[01] of 2/,
  ],
  [
    "a partition is added",
    () => places(0, 1, 2),
    /^Redis holds partition ([01]) of 2, but \[redis\] makes it partition \1 of 3/,
  ],
  [
    "no partitions are set",
    () => ({ url: redis.url }),
    /^Redis holds partition 0 of 2, but \[redis\] makes it partition 0 of 1/,
  ],
] as const;

test.each(sample(WRONG))(
  "if %s, the process exits with 1 and says which partition Redis holds",
  async (_, table, reason) => {
    const started = sample(KINDS).map((kind) => start(kind, table()));
    for (const each of started) {
      expect(await each.exit).toMatchObject({ code: 1 });
      expect(each.events("service.failed")).toMatchObject([
        { code: "start.layout_mismatch", reason: expect.stringMatching(reason) },
      ]);
    }
  },
);

onlyInLongRun(() => {
  test("a process that starts with an empty partition of a known deployment accepts the calls of the others, and reports the empty one", async () => {
    const client = redis.client.duplicate({ db: 1 });
    await client.flushdb();
    const gateway = start("webhooks", places(0, 1));
    const { code, partition, reason } = await gateway.waitForEvent("redis.unusable");
    expect({ code, partition }).toEqual({ code: "start.wrong_redis", partition: 1 });
    expect(reason).toContain(`Redis is empty, but must hold the data of deployment ${deployment_id}`);
    await gateway.waitForEvent("service.started");
    expect(await client.dbsize()).toBe(0);
    client.disconnect();
  });
});
