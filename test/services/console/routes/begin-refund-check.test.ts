import { beforeEach, describe, expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { PRICE } from "../../../fixtures/x402.ts";
import { audited } from "../../../support/audited.ts";
import { configureRefunds, payBack, refundable } from "../refundable.ts";
import { runIn } from "../run-of.ts";

describe("202", () => {
  const payments = usePayments();
  const fixture = useOperator({ redis: payments.redis });
  beforeEach(() => configureRefunds(payments));

  test("a refund check closes the case that a transfer has paid back, and lists those that are still open", async () => {
    const ids = await refundable(payments, 2);
    const service = await fixture.start({ configDir: payments.postern.configDir });
    await service.post("/api/v1/payments/refunds/exports", { call_ids: ids, reason: "x" });
    const transaction = await payBack(payments);
    const begun = await service.post("/api/v1/payments/refund-checks", {});
    expect(begun.status).toBe(202);
    const { result } = (await runIn(service, String(begun.headers["location"]), "done")) as unknown as {
      result: { closed: { call_id: string }[]; open: { call_id: string }[] };
    };
    expect(result).toMatchObject({ closed: [{ transaction, late_at: null }], problems: [], unwatched: [] });
    expect([result.closed[0]?.call_id, result.open[0]?.call_id].toSorted()).toEqual(ids.toSorted());
    const closed = await service.get(`/api/v1/payments/${result.closed[0]?.call_id}`);
    expect(closed.json()).toMatchObject({ state: "refunded", refunded: { transaction } });
    const lines = { by: "otto", run: begun.json()["id"] };
    expect((await audited(payments.redis.client)).slice(ids.length)).toMatchObject([
      { action: "begin_refund_check", ...lines },
      { action: "close_refund", ...lines, call_id: result.closed[0]?.call_id, transaction },
    ]);
    await service.post("/api/v1/payments/refund-checks", {});
    await expect
      .poll(async () => (await service.get("/api/v1/bulk?kind=refund-check")).json())
      .toMatchObject({ runs: [{ state: "done" }, { state: "done" }] });
    expect(await audited(payments.redis.client, ["money"])).toHaveLength(ids.length + 1);
    const { earned } = (await service.get("/api/v1/revenue?days=2")).json<{ earned: unknown[] }>();
    const refund = { symbol: "USDC", job: "1/7", refunds: 1, refunded: String(PRICE) };
    expect(earned).toEqual([expect.objectContaining(refund)]);
  });
});

describe("409", () => {
  const fixture = useOperator();

  test("without the tokens' configuration no refund can be searched for: 409", async () => {
    const { post } = await fixture.start();
    expect(refusalOf(await post("/api/v1/payments/refund-checks", {}))).toEqual([409, "token.unconfigured"]);
  });
});
