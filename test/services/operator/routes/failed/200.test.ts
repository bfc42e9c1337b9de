import { beforeAll, expect, test } from "vitest";
import { useFailedCalls } from "../../../../fixtures/failed-calls.ts";
import { useOperator } from "../../../../fixtures/operator.ts";
import { keys, useRedis } from "../../../../fixtures/redis.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis, fresh: "file" });
const fixture = useOperator({ redis });
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

test("the list of failed calls has the newest first, with why each failed, and no body", async () => {
  const all = await list();
  expect([places(all), all.next]).toEqual([[2, 1, 0], null]);
  expect(all.calls[1]).toEqual({
    ...{ id: ids[1], origin: "webhook", path: "/b", service_id: 7, job_id: 2, attempts: 1 },
    ...{ code: "runner.refused", reason: "the runner said\nno \u001b[31m", content_type: "application/json" },
    ...{ failed_at: "2027-01-15T08:00:01.000Z", accepted_at: expect.any(String), bytes: expect.any(Number) },
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

test("pages that follow one another have each call once", async () => {
  const met: number[] = [];
  let page = await list("?limit=1");
  for (;;) {
    met.push(...places(page));
    if (page.next === null) break;
    page = await list(`?limit=1&cursor=${page.next}`);
  }
  expect(met).toEqual([2, 1, 0]);
});
