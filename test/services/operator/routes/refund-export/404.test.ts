import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("an export that was never made is 404", async () => {
  const { get } = await fixture.start();
  const refused = await get(`/api/v1/payments/refunds/exports/r_${"0".repeat(32)}`);
  expect(refusalOf(refused)).toEqual([404, "refund.unknown"]);
});
