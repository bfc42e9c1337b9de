import { beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { keys, useOwnRedis, useRedis } from "../../../fixtures/redis.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { multiplyFailed } from "../../../support/multiply-failed.ts";

const redis = useRedis();
const fixture = useOperator({ redis });

describe("200", () => {
  const calls = useFailedCalls({ redis, fresh: "file" });
  let ids: string[];

  beforeAll(async () => {
    ids = [
      ...(await calls.fail([
        { path: "/a", jobId: 1 },
        { path: "/b", jobId: 2 },
      ])),
      ...(await calls.fail([{ origin: "x402", jobId: 2 }], "runner.failed")),
    ];
    for (const [i, id] of ids.entries()) {
      const { queue } = await calls.find(id);
      await redis.client.zadd(keys.inQueue(queue, "failed"), "XX", 1_800_000_000_000 + i * 1000, id);
    }
  });

  type Page = { calls: { id: string }[]; next: string | null };

  const list = async (query = "") => {
    const { get } = await fixture.start();
    const answer = await get(`/api/v1/failed${query}`, { as: "viewer" });
    expect(answer.status).toBe(200);
    return answer.json<Page>();
  };
  const places = ({ calls: found }: Page) => found.map(({ id }) => ids.indexOf(id));

  test("the list of failed calls has the newest first, with the reason of each, and no body", async () => {
    const all = await list();
    expect([places(all), all.next]).toEqual([[2, 1, 0], null]);
    expect(all.calls[1]).toEqual({
      ...{ id: ids[1], origin: "webhook", endpoint: "/b", service_id: 7, job_id: 2, attempts: 1 },
      ...{
        code: "runner.refused",
        reason: "the runner said\nno \u001b[31m",
        content_type: "application/json",
      },
      ...{
        failed_at: "2027-01-15T08:00:01.000Z",
        accepted_at: expect.any(String),
        bytes: expect.any(Number),
      },
      ...{ sha256: expect.any(String), traceparent: expect.any(String) },
    });
  });

  test.each([
    ["?origin=x402", [2]],
    ["?endpoint=/b", [1]],
    ["?service_id=7&job_id=2", [2, 1]],
    ["?code=runner.failed", [2]],
    ["?since=2027-01-15T08:00:01Z", [2, 1]],
    ["?until=2027-01-15T09:00:00.500%2B01:00", [0]],
    ["?service_id=8", []],
  ])("the list filtered by %s has the calls that match", async (query, expected) => {
    expect(places(await list(query))).toEqual(expected);
  });

  test("consecutive pages have each call exactly once", async () => {
    const met: number[] = [];
    let page = await list("?limit=1");
    for (;;) {
      met.push(...places(page));
      if (page.next === null) break;
      page = await list(`?limit=1&cursor=${page.next}`);
    }
    expect(met).toEqual([2, 1, 0]);
  });
});

describe("400", () => {
  const cursor = (place: unknown) => Buffer.from(JSON.stringify(place)).toString("base64url");

  test.each([
    ["?limit=0", /^limit: /],
    ["?limit=501", /^limit: /],
    ["?limit=ten", /^limit: must be an integer/],
    ["?origin=mail", /^origin: must be /],
    ["?code=runner.nope", /^code: must be an error code/],
    ["?since=yesterday", /^since: /],
    ["?cursor=nonsense", /^cursor: must be the `next`/],
    [`?cursor=${cursor({ failedAt: "1", id: "x" })}`, /^cursor/],
    ["?job=1", /^job: /],
    ["?limit=1&limit=2", /^limit: must not be sent more than once/],
  ])(
    "the list of failed calls is refused with 400 for %s, and the answer names the wrong parameter",
    async (query, detail) => {
      const { get } = await fixture.start();
      const refused = await get(`/api/v1/failed${query}`);
      expect(refusalOf(refused)).toEqual([400, "request.malformed"]);
      expect(refused.json()["detail"]).toMatch(detail);
    },
  );
});

onlyInLongRun(() => {
  describe("429", () => {
    const calls = useFailedCalls({ redis });

    test("more long readings than the limit are refused with 429 and a time to retry", async () => {
      const [id = ""] = await calls.fail([{}]);
      await multiplyFailed(redis.partition, {
        ...{ of: { id, queue: "webhook/7/1" }, copies: 5000, queues: ["webhook/7/1"], everyMs: -1 },
      });
      const { get } = await fixture.start();
      const answers = await Promise.all(
        Array.from({ length: 20 }, () => get("/api/v1/failed?endpoint=/none")),
      );
      const statuses = answers.map(({ status }) => status);
      expect(statuses.filter((status) => status === 200).length).toBeGreaterThanOrEqual(8);
      const refused = answers.find(({ status }) => status === 429);
      expect(refused && refusalOf(refused)).toEqual([429, "request.rate_limited"]);
      expect(Number(refused?.headers["retry-after"])).toBeGreaterThan(0);
    });
  });
});

describe("503", () => {
  const redis = useOwnRedis();
  const fixture = useOperator({ redis });

  test("while Redis is unavailable the API answers 503 at once, and works again afterwards", async () => {
    const { get, readiness } = await fixture.start();
    await redis.server.kill("SIGKILL");
    await eventually("Redis is missed", () => !readiness().ready);
    const refused = await get("/api/v1/failed");
    expect(refusalOf(refused)).toEqual([503, "queue.unavailable"]);
    expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
    await redis.server.restart();
    await eventually("Redis is found", () => readiness().ready);
    expect((await get("/api/v1/failed")).status).toBe(200);
  });
});
