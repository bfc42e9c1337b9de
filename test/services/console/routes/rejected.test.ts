import { describe, expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useRedis } from "../../../fixtures/redis.ts";
import { useRejections } from "../rejections.ts";

const redis = useRedis();
const fixture = useOperator({ redis });

describe("200", () => {
  useRejections(redis);

  type Page = { count: number; requests: Record<string, unknown>[]; next: string | null };

  async function list(query = ""): Promise<Page> {
    const { get } = await fixture.start();
    const answer = await get(`/api/v1/rejected${query}`, { as: "viewer" });
    expect(answer.status).toBe(200);
    expect(answer.text).not.toContain("hidden");
    return answer.json<Page>();
  }
  const reasonsIn = ({ requests }: Page) => requests.map(({ reason }) => reason);

  test("refused requests are listed newest first with their reason, and without values of headers or queries", async () => {
    const all = await list();
    expect([all.count, reasonsIn(all), all.next]).toEqual([
      ...[3, ["differs from /a by case", "too long", "missing"], null],
    ]);
    expect(all.requests[2]).toMatchObject({
      ...{ endpoint: "/a", address: "192.0.2.1", method: "POST", path: "/a", query_names: ["token"] },
      ...{ code: "webhook.credential_rejected", bytes: 12, delivery_id: "d-1", missed_before: 0 },
      signature_headers: { came: [], wanted: ["Stripe-Signature"] },
      credential: "digest",
    });
    expect(all.requests[2]?.["header_names"]).toContain("X-Key");
  });

  test.each([
    ["endpoint=/a", 2],
    ["unknown=true", 1],
    ["code=request.too_large", 1],
    ["reason=missing", 1],
    ["endpoint=/none", 0],
    ["since=2100-01-01T00:00:00Z", 0],
  ])("refused requests are filtered by %s", async (query, count) => {
    const page = await list(`?${query}`);
    expect([page.count, page.requests.length]).toEqual([count, count]);
  });

  test("consecutive pages have each request exactly once, and each page has the total", async () => {
    const met: unknown[] = [];
    let page = await list("?limit=1");
    for (;;) {
      expect(page.count).toBe(3);
      met.push(...reasonsIn(page));
      if (page.next === null) break;
      page = await list(`?limit=1&cursor=${page.next}`);
    }
    expect(met).toEqual(["differs from /a by case", "too long", "missing"]);
  });
});

describe("400", () => {
  test.each(["code=none", "unknown=1", "since=today", "limit=0", "cursor=nonsense"])(
    "the list of refused requests is refused with 400 for %s",
    async (query) => {
      const { get } = await fixture.start();
      expect(refusalOf(await get(`/api/v1/rejected?${query}`))).toEqual([400, "request.malformed"]);
    },
  );
});
