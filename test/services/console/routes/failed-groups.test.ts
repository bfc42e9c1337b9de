import { describe, expect, test } from "vitest";
import { useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });

describe("200", () => {
  test("failed calls are counted by origin, job and code, within the filter", async () => {
    await calls.fail([{ jobId: 1 }, { jobId: 1 }, { origin: "x402", jobId: 2 }]);
    await calls.fail([{ jobId: 1 }], "runner.failed");
    const { get } = await fixture.start();
    const group = (origin: string, job_id: number, code: string, count: number) => ({
      ...{ origin, service_id: 7, job_id, code, count },
      ...{ oldest_at: expect.any(String), newest_at: expect.any(String) },
      ...{ newest_reason: expect.any(String), by_hour: expect.any(Array) },
    });
    const all = (await get("/api/v1/failed/groups")).json<{ groups: unknown[] }>();
    expect(all.groups).toHaveLength(3);
    expect(all.groups).toEqual(
      expect.arrayContaining([
        group("webhook", 1, "runner.refused", 2),
        group("webhook", 1, "runner.failed", 1),
        group("x402", 2, "runner.refused", 1),
      ]),
    );
    expect((await get("/api/v1/failed/groups?origin=x402")).json()).toEqual({
      groups: [group("x402", 2, "runner.refused", 1)],
    });
  });

  test("a group has the times of its oldest and newest failure, the newest reason, and the number of failures in each hour of the last day", async () => {
    const [first] = await calls.fail([{ jobId: 1 }, { jobId: 1 }]);
    if (first === undefined) throw new Error("no call");
    const HOUR = 3_600_000;
    const { failedAt, queue } = await calls.find(first);
    await redis.client.hset(keys.inQueue(queue, first), "finishedOn", failedAt - 3 * HOUR);
    const { get } = await fixture.start();
    const { groups } = (await get("/api/v1/failed/groups")).json<{ groups: Record<string, unknown>[] }>();
    expect(groups).toEqual([
      expect.objectContaining({ count: 2, newest_reason: expect.stringContaining("the runner said") }),
    ]);
    const [{ oldest_at, newest_at, by_hour } = {}] = groups;
    expect(oldest_at).toBe(new Date(failedAt - 3 * HOUR).toISOString());
    const found = (await get("/api/v1/failed/groups?text=the+runner")).json<{ groups: unknown[] }>();
    expect(found.groups).toEqual([expect.objectContaining({ count: 2, oldest_at: expect.any(String) })]);
    expect(Date.parse(String(newest_at))).toBeGreaterThan(failedAt - HOUR);
    const counts = by_hour as number[];
    expect([counts.length, counts.reduce((sum, each) => sum + each, 0)]).toEqual([24, 2]);
    const lastOfAll = counts.lastIndexOf(1);
    expect(lastOfAll - counts.indexOf(1)).toBe(3);
    expect(lastOfAll).toBeGreaterThanOrEqual(22);
  });
});
