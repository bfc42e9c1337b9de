import { describe, expect, test } from "vitest";
import { createRunStore } from "../../../../shared/console/runs/store.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useRedis } from "../../../fixtures/redis.ts";

const redis = useRedis();
const fixture = useOperator({ redis });

describe("200", () => {
  test("before the first audit the list of them is empty, and so is that of the looks for refunds", async () => {
    const { get } = await fixture.start();
    for (const kind of ["audits", "refund-checks"]) {
      const listed = await get(`/api/v1/payments/${kind}`, { as: "viewer" });
      expect([listed.status, listed.json()]).toEqual([200, { runs: [] }]);
    }
  });

  test("the list has the newest, without what they have found: only an audit itself tells that", async () => {
    const { get } = await fixture.start();
    const runs = createRunStore(redis.partition);
    const ids: string[] = [];
    for (let n = 0; n < 3; n++) {
      const { id } = await runs.create({ kind: "audit", by: "vera", request: {} });
      await runs.take("somebody else", 60_000, ["audit"]);
      await runs.hold(id, "somebody else", 60_000, { tokens: [] });
      ids.push(id);
    }
    const listed = await get("/api/v1/payments/audits?limit=2", { as: "viewer" });
    expect(listed.json()).toMatchObject({
      runs: [
        { id: ids[2], result: null },
        { id: ids[1], result: null },
      ],
    });
    const shown = await get(`/api/v1/payments/audits/${ids[2]}`, { as: "viewer" });
    expect(shown.json()).toMatchObject({ result: { tokens: [] } });
  });
});

describe("400", () => {
  test.each(["limit=0", "limit=501", "cursor=x"])(
    "the list of audits is refused with 400 for %s",
    async (query) => {
      const { get } = await fixture.start();
      expect(refusalOf(await get(`/api/v1/payments/audits?${query}`))).toEqual([400, "request.malformed"]);
    },
  );
});
