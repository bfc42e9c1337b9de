import { describe, expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { useRedis } from "../../../fixtures/redis.ts";

const redis = useRedis();
const fixture = useOperator({ redis });

describe("200", () => {
  const calls = useFailedCalls({ redis });

  test("the calls of a search are counted by state, endpoint, job, event type and error code", async () => {
    const event = { "X-WEBHOOK-EVENT": "invoice.paid" };
    await calls.fail([
      { path: "/a", metadata: event },
      { path: "/b", jobId: 2, metadata: event },
    ]);
    await calls.add({ path: "/a", jobId: 3 });
    const { get } = await fixture.start();
    const answer = await get("/api/v1/calls/facets", { as: "viewer" });
    expect(answer.status).toBe(200);
    const facet = (name: string, ...values: [value: string, count: number][]) => ({
      name,
      values: values.map(([value, count]) => ({ value, count })),
      others: 0,
    });
    expect(answer.json()).toEqual({
      matched: 3,
      facets: [
        facet("state", ["failed", 2], ["waiting", 1]),
        facet("endpoint", ["/a", 2], ["/b", 1]),
        facet("job", ["7/1", 1], ["7/2", 1], ["7/3", 1]),
        facet("event", ["invoice.paid", 2]),
        facet("code", ["runner.refused", 2]),
      ],
      is_complete: true,
      is_unlisted: false,
    });
    const some = (await get("/api/v1/calls/facets?q=INVOICE&endpoint=/b")).json<{ matched: number }>();
    expect(some.matched).toBe(1);
  });
});

describe("400", () => {
  test.each([
    ["q=c_12*", /^q: must be plain text without wildcards/],
    ["limit=1", /^limit: /],
  ])("a search for %s is refused with 400, and the answer says what is wrong", async (query, detail) => {
    const { get } = await fixture.start();
    const refused = await get(`/api/v1/calls/facets?${query}`);
    expect(refusalOf(refused)).toEqual([400, "request.malformed"]);
    expect(refused.json()["detail"]).toMatch(detail);
  });
});
