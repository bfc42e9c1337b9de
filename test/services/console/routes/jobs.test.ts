import { describe, expect, test } from "vitest";
import { createEnqueue } from "../../../../services/webhooks-gateway/enqueue.ts";
import { openJobs } from "../../../../shared/queue/jobs.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { aCall } from "../../../fixtures/producer.ts";
import { limitJobs } from "../../../support/limit-jobs.ts";

const fixture = useOperator();

describe("200", () => {
  test("the list of jobs has the counts over all origins, the limits and the pause of each job", async () => {
    const { get } = await fixture.start();
    const { partition } = fixture.redis;
    const [add, jobs] = [createEnqueue(partition), openJobs(fixture.redis.partitions)];
    for (const origin of ["webhook", "x402"] as const) await add(aCall({ origin, job_id: 10 }));
    await add(aCall({ job_id: 9 }));
    await limitJobs(
      fixture.redis.partitions,
      new Map([["7/9", { concurrency: 5, rate: { max: 100, periodMs: 2000 } }]]),
    );
    await jobs.throttle("7/10", 60_000);
    await jobs.pause("3/1", { at: 0, by: "a@b", reason: "it\nloops" });
    const none = { waiting: 0, delayed: 0, held: 0, active: 0, failed: 0 };
    expect((await get("/api/v1/jobs", { as: "viewer" })).json()).toEqual({
      jobs: [
        {
          ...{
            job: "3/1",
            state: "paused",
            origins: [],
            ...none,
            oldest_age_ms: null,
            concurrency: null,
            rate: null,
          },
          paused: { at: "1970-01-01T00:00:00.000Z", by: "a@b", reason: "it\nloops" },
        },
        {
          ...{ job: "7/9", state: "running", origins: ["webhook"], ...none, waiting: 1, concurrency: 5 },
          ...{ oldest_age_ms: expect.any(Number), rate: { calls: 100, period_ms: 2000 } },
        },
        {
          ...{ job: "7/10", state: "throttled", origins: ["webhook", "x402"], ...none, waiting: 2 },
          ...{ oldest_age_ms: expect.any(Number), concurrency: null, rate: null },
          throttled_until: expect.any(String),
        },
      ],
      next: null,
    });
  });
});

describe("400", () => {
  test.each(["cursor=nonsense", "cursor=eyJhIjoxfQ", "limit=0", "limit=501"])(
    "a page of jobs with %s is refused: 400",
    async (query) => {
      const { get } = await fixture.start();
      expect(refusalOf(await get(`/api/v1/jobs?${query}`))).toEqual([400, "request.malformed"]);
    },
  );
});
