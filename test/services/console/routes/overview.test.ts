import { describe, expect, test } from "vitest";
import { createEnqueue } from "../../../../services/webhooks-gateway/enqueue.ts";
import { OverviewView } from "../../../../shared/console/overview/overview.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { beat } from "../../../../shared/queue/heartbeat.ts";
import { openJobs } from "../../../../shared/queue/jobs.ts";
import { useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { aCall } from "../../../fixtures/producer.ts";
import { useRedis } from "../../../fixtures/redis.ts";
import { useReports } from "../../../fixtures/reports.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });
const reports = useReports(redis);

describe("200", () => {
  test("the overview has the queues of each origin, the live processes, the paused jobs, and the durability of Redis", async () => {
    await calls.fail([{ jobId: 1 }, { jobId: 1 }]);
    await createEnqueue(redis.partition)(aCall({ origin: "x402", job_id: 2 }));
    await openJobs(redis.partitions).pause("7/1", { at: Date.now(), by: "a@b", reason: "it loops" });
    await reports.start({ kind: "webhooks" });
    const worker = beat(redis.partition, { workerId: "worker-1", clock: Date.now });
    const { get } = await fixture.start();
    const read = async () => OverviewView.parse((await get("/api/v1/overview", { as: "viewer" })).json());
    const seen = await eventually("the worker is alive", async () => {
      const overview = await read();
      return overview.workers.some(({ id }) => id === "worker-1") ? overview : undefined;
    });
    await worker.stop();
    expect(seen.queues.slice(0, 2)).toEqual([
      {
        ...{ origin: "webhook", waiting: 0, delayed: 0, held: 0, active: 0, failed: 2, oldest_age_ms: null },
        ...{ waiting_age_ms: null, delayed_until: null },
        last_minute: null,
      },
      {
        origin: "x402",
        waiting: 1,
        delayed: 0,
        held: 0,
        active: 0,
        failed: 0,
        oldest_age_ms: expect.any(Number),
        waiting_age_ms: expect.any(Number),
        delayed_until: null,
        last_minute: null,
      },
    ]);
    expect(seen.paused_jobs).toEqual(["7/1"]);
    expect(seen.processes).toEqual([expect.objectContaining({ kind: "webhooks", durability: "strict" })]);
    expect(seen.payments.review).toEqual({ count: 0, oldest_at: null });
    expect(seen.redis).toMatchObject({ durability: "strict", problem: null, proof: "always" });
  });

  test("the overview has the runners as producers that inject over HTTP see them", async () => {
    const [one, other] = await Promise.all([reports.start(), reports.start()]);
    const its = { name: "default", url: "http://127.0.0.1:8645" };
    await one.tellRunners([{ ...its, state: "answers", answeredAt: 2000 }]);
    await other.tellRunners([{ ...its, state: "away", since: 1000, reason: "connect ECONNREFUSED" }]);
    const { get } = await fixture.start();
    const { runners } = OverviewView.parse((await get("/api/v1/overview", { as: "viewer" })).json());
    expect(runners).toEqual([
      {
        ...{ ...its, state: "away", reason: "connect ECONNREFUSED", producers: 2, unanswered: 1 },
        ...{ since: "1970-01-01T00:00:01.000Z", or_earlier: false, answered_at: "1970-01-01T00:00:02.000Z" },
      },
    ]);
  });

  test("the overview says why Redis may lose accepted calls", async () => {
    await redis.client.config("SET", "appendfsync", "everysec");
    try {
      const { get } = await fixture.start();
      const { redis: seen } = OverviewView.parse((await get("/api/v1/overview")).json());
      expect(seen).toMatchObject({ proof: null, problem: expect.stringContaining("appendfsync") });
    } finally {
      await redis.client.config("SET", "appendfsync", "always");
    }
  });
});
