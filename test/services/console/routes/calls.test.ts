import { beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { useRedis } from "../../../fixtures/redis.ts";

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

  test("a search finds calls wherever they are, the newest first, with what is known of each", async () => {
    const { calls: found, ...rest } = await search();
    expect(rest).toEqual({ next: null, is_complete: true, is_unlisted: false });
    expect(found[0]).toEqual({
      ...{ id: ids.waiting, state: "waiting", at: expect.any(String), origin: "webhook", job: "7/3" },
      ...{ endpoint: "/a", delivery_id: null, payer: null, transaction: null, attempts: 0 },
      ...{ accepted_at: expect.any(String), ended_at: null, code: null, reason: null },
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
  ] as const)("a search for %s finds the calls that match", async (query, expected) => {
    const { calls: found } = await search(`?${query}`);
    expect(found.map(({ id }) => id)).toEqual(expected.map((name) => ids[name]));
  });

  test("a search for an id finds a call that is nowhere but in its record", async () => {
    expect((await search(`?id=${ids.done}`)).calls).toMatchObject([{ id: ids.done, state: "injected" }]);
  });

  test("pages that follow one another have each call once", async () => {
    const first = await search("?limit=1");
    expect(first.next).not.toBeNull();
    const second = await search(`?limit=1&cursor=${first.next}`);
    expect([...first.calls, ...second.calls].map(({ id }) => id)).toEqual([ids.waiting, ids.failed]);
    expect(second.next).toBeNull();
  });
});

describe("400", () => {
  test.each([
    ["id=c_123", /^id: /],
    ["payer=alice", /^payer: must be an address/],
    ["transaction=0x12", /^transaction: must be a transaction hash/],
    ["job=7", /^job: must be <service id>/],
    ["state=lost", /^state: /],
    ["since=yesterday", /^since: /],
    ["cursor=nonsense", /^cursor: must be the `next`/],
    ["limit=501", /^limit: /],
    ["delivery=1", /^delivery: /],
  ])("a search for %s is refused with 400, and says what is wrong", async (query, detail) => {
    const { get } = await fixture.start();
    const refused = await get(`/api/v1/calls?${query}`);
    expect(refusalOf(refused)).toEqual([400, "request.malformed"]);
    expect(refused.json()["detail"]).toMatch(detail);
  });
});
