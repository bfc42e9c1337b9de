import { expect, test } from "vitest";
import { useOperator } from "../../../../fixtures/operator.ts";
import { useRedis } from "../../../../fixtures/redis.ts";
import { auditOf } from "../../audit-of.ts";

const redis = useRedis();
const fixture = useOperator({ redis });

test.each(["callback", "callback/receiver.example.com", "callback/127.0.0.1/8443"])(
  "the callbacks of %s are paused and resumed as a job is, with a line in the audit",
  async (job) => {
    await redis.client.flushdb();
    const { post } = await fixture.start();
    const paused = await post(`/api/v1/jobs/${job}/pause`, { reason: "it is away" });
    expect([paused.status, paused.json()]).toMatchObject([
      200,
      { changed: true, job: { job, state: "paused" } },
    ]);
    const resumed = await post(`/api/v1/jobs/${job}/resume`, { reason: "it is back" });
    expect([resumed.status, resumed.json()]).toMatchObject([
      200,
      { changed: true, job: { job, state: "running" } },
    ]);
    expect(await auditOf(redis)).toMatchObject([
      { action: "pause", job, by: "otto", reason: "it is away" },
      { action: "resume", job, by: "otto", reason: "it is back" },
    ]);
  },
);
