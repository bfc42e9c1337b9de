import { beforeEach, describe, expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { configureRefunds, refundable } from "../refundable.ts";

describe("200", () => {
  const payments = usePayments();
  const fixture = useOperator({ redis: payments.redis });
  beforeEach(() => configureRefunds(payments));

  test("an export is shown unchanged, even if the configuration has changed since", async () => {
    const call_ids = await refundable(payments);
    const { post } = await fixture.start({ configDir: payments.postern.configDir });
    const made = await post("/api/v1/payments/refunds/exports", { call_ids, reason: "x" });
    const { get } = await fixture.start();
    const shown = await get(String(made.headers["location"]), { as: "viewer" });
    expect([shown.status, shown.json()]).toEqual([200, made.json()]);
  });
});

describe("404", () => {
  const fixture = useOperator();

  test("an unknown export gets 404", async () => {
    const { get } = await fixture.start();
    const refused = await get(`/api/v1/payments/refunds/exports/r_${"0".repeat(32)}`);
    expect(refusalOf(refused)).toEqual([404, "refund.unknown"]);
  });
});
