import { beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { useRedis } from "../../../fixtures/redis.ts";
import { useRejections } from "../rejections.ts";

const redis = useRedis();
const fixture = useOperator({ redis });

describe("200", () => {
  const calls = useFailedCalls({ redis, fresh: "file" });
  const ids: Record<"done" | "failed" | "waiting", string> = { done: "", failed: "", waiting: "" };

  beforeAll(async () => {
    ids.done = await calls.add({ path: "/a" });
    await calls.startProducer();
    await eventually("its runner has it", async () => (await calls.records.state(ids.done)) === "INJECTED");
    await calls.stopProducer();
    [ids.failed = ""] = await calls.fail([{ path: "/b", jobId: 2 }]);
    ids.waiting = await calls.add({ path: "/a", jobId: 3 });
  });

  type Page = { calls: { id: string }[]; next: string | null; is_complete: boolean };

  async function search(query = ""): Promise<Page> {
    const { get } = await fixture.start();
    const answer = await get(`/api/v1/calls${query}`, { as: "viewer" });
    expect(answer.status).toBe(200);
    return answer.json<Page>();
  }

  test("a search finds calls in every state, newest first, with their known fields", async () => {
    const { calls: found, ...rest } = await search();
    expect(rest).toEqual({ next: null, rejected: [], is_complete: true, is_unlisted: false });
    expect(found[0]).toEqual({
      ...{ id: ids.waiting, state: "waiting", at: expect.any(String), origin: "webhook", job: "7/3" },
      ...{ endpoint: "/a", delivery_id: null, payer: null, transaction: null, attempts: 0 },
      ...{ event: null, accepted_at: expect.any(String), ended_at: null, code: null, reason: null },
    });
    expect(found[1]).toMatchObject({
      ...{ id: ids.failed, state: "failed", code: "runner.refused", attempts: 1 },
    });
  });

  test.each([
    ["state=failed", ["failed"]],
    ["endpoint=/a", ["waiting"]],
    ["job=7/2", ["failed"]],
    ["origin=x402", []],
    [`payer=0x${"AB".repeat(20)}`, []],
    ["since=2100-01-01T00:00:00Z", []],
    ["delivery_id=none", []],
    ["event=none", []],
    ["code=runner.refused", ["failed"]],
    ["q=RUNNER.REFUSED", ["failed"]],
    ["q=7/3", ["waiting"]],
    ["q=%20/a%20", ["waiting"]],
    ["q=/a&code=runner.refused", []],
  ] as const)("a search for %s finds the calls that match", async (query, expected) => {
    const { calls: found } = await search(`?${query}`);
    expect(found.map(({ id }) => id)).toEqual(expected.map((name) => ids[name]));
  });

  test("a search for an id finds a call that only has a record", async () => {
    expect((await search(`?id=${ids.done}`)).calls).toMatchObject([{ id: ids.done, state: "injected" }]);
  });

  test("consecutive pages have each call exactly once", async () => {
    const first = await search("?limit=1");
    expect(first.next).not.toBeNull();
    const second = await search(`?limit=1&cursor=${first.next}`);
    expect([...first.calls, ...second.calls].map(({ id }) => id)).toEqual([ids.waiting, ids.failed]);
    expect(second.next).toBeNull();
  });
});

describe("200 with a refused request", () => {
  const rejections = useRejections(redis);

  test("a search for the start of a refused request's id finds it, on the first page only", async () => {
    const { get } = await fixture.start();
    const [, { id = "" } = {}] = rejections.newest;
    for (const q of [id, id.slice(0, 10).toUpperCase()]) {
      const { rejected, calls } = (await get(`/api/v1/calls?q=${q}`)).json<{
        rejected: object[];
        calls: object[];
      }>();
      expect(calls).toEqual([]);
      expect(rejected).toContainEqual(
        expect.objectContaining({ id, endpoint: "/a", code: "request.too_large" }),
      );
    }
    expect((await get("/api/v1/calls?q=request.too_large")).json()).toMatchObject({ rejected: [] });
  });
});

describe("400", () => {
  test.each([
    ["q=", /^q: must not be empty: give the start of an id/],
    ["q=%20", /^q: must not be empty/],
    [`q=${"a".repeat(201)}`, /^q: must have at most 200 characters/],
    ["q=a%0Ab", /^q: must be one line of plain text/],
    ["q=c_1234*", /^q: must be plain text without wildcards: the start of an id/],
    ["q=state:failed", /^q: must be plain text without operators: use the filter state instead of "state:"$/],
    ["code=unknown.code", /^code: must be an error code/],
    ["id=c_123", /^id: /],
    ["payer=alice", /^payer: must be an address/],
    ["transaction=0x12", /^transaction: must be a transaction hash/],
    ["job=7", /^job: must be <service id>/],
    ["state=lost", /^state: /],
    ["since=yesterday", /^since: /],
    ["cursor=nonsense", /^cursor: must be the `next`/],
    ["limit=501", /^limit: /],
    ["delivery=1", /^delivery: /],
  ])("a search for %s is refused with 400, and the answer says what is wrong", async (query, detail) => {
    const { get } = await fixture.start();
    const refused = await get(`/api/v1/calls?${query}`);
    expect(refusalOf(refused)).toEqual([400, "request.malformed"]);
    expect(refused.json()["detail"]).toMatch(detail);
  });
});
