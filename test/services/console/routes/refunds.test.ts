import { describe, expect, test } from "vitest";
import { useOperator } from "../../../fixtures/console.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { refundable } from "../refundable.ts";

const payments = usePayments();
const fixture = useOperator({ redis: payments.redis });

describe("200", () => {
  test("only due refunds are listed, with the obstacle to each", async () => {
    const [failed = ""] = await refundable(payments);
    await payments.claim();
    const { get } = await fixture.start({ configDir: payments.postern.configDir });
    const listed = await get("/api/v1/payments/refunds", { as: "viewer" });
    expect([listed.status, listed.json()]).toEqual([
      200,
      {
        payments: [
          expect.objectContaining({ call_id: failed, state: "failed", effect: "none", obstacle: null }),
        ],
        next: null,
      },
    ]);
    await payments.gateway.journal.markDisputed(failed, "the chain says: gone");
    const disputed = await get("/api/v1/payments/refunds");
    expect(disputed.json()["payments"]).toMatchObject([{ call_id: failed, obstacle: "disputed" }]);
  });

  onlyInLongRun(() => {
    test("consecutive pages of refunds have each case exactly once, newest first", async () => {
      const ids = await refundable(payments, 3);
      const { get } = await fixture.start({ configDir: payments.postern.configDir });
      const met: unknown[] = [];
      let cursor = "";
      for (const _page of ids) {
        const page = await get(`/api/v1/payments/refunds?limit=1${cursor}`);
        const { payments: found, next } = page.json<{
          payments: { call_id: string }[];
          next: string | null;
        }>();
        met.push(...found.map(({ call_id }) => call_id));
        cursor = `&cursor=${next}`;
      }
      expect([met, cursor]).toEqual([ids.toReversed(), "&cursor=null"]);
    });
  });
});
