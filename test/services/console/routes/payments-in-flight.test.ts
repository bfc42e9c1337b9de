import { describe, expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { keys } from "../../../fixtures/redis.ts";

describe("200", () => {
  const payments = usePayments();
  const fixture = useOperator({ redis: payments.redis });

  test("payments in flight are those that settle, but not those with a queued call or in review", async () => {
    const settling = await payments.claim();
    await payments.buy();
    await payments.claimForReview();
    const { get } = await fixture.start();
    const answer = await get("/api/v1/payments/in-flight", { as: "viewer" });
    expect([answer.status, answer.json()]).toEqual([200, { call_ids: [settling], next: null }]);
  });

  test("pages have the payments with the next check first, even if many are due at the same time", async () => {
    const ids: string[] = [];
    for (let n = 0; n < 5; n++) ids.push(await payments.claim());
    await payments.buy();
    const dueAt = (i: number) => (i < 3 ? 5_000_000_000_000 : 6_000_000_000_000 + i);
    for (const [i, id] of ids.entries())
      await payments.redis.client.zadd(keys.paymentsDue, "XX", dueAt(i), id);
    const { get } = await fixture.start();
    const met: string[][] = [];
    for (let cursor = ""; ; ) {
      const { call_ids, next } = (await get(`/api/v1/payments/in-flight?limit=2${cursor}`)).json<{
        call_ids: string[];
        next: string | null;
      }>();
      met.push(call_ids);
      if (next === null) break;
      cursor = `&cursor=${next}`;
    }
    const expected = [...ids.slice(0, 3).sort(), ...ids.slice(3)];
    expect(met).toEqual([expected.slice(0, 2), expected.slice(2, 4), expected.slice(4)]);
  });
});

describe("400", () => {
  const fixture = useOperator();

  test.each(["limit=0", "cursor=nonsense", "state=settling"])(
    "the list of payments in flight is refused with 400 for %s",
    async (query) => {
      const { get } = await fixture.start();
      expect(refusalOf(await get(`/api/v1/payments/in-flight?${query}`))).toEqual([400, "request.malformed"]);
    },
  );
});
