import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("the refund of a payment that is not in the journal is not withdrawn: 404", async () => {
  const { post } = await fixture.start();
  const refused = await post(`/api/v1/payments/c_${"0".repeat(32)}/withdraw-refund`, { reason: "x" });
  expect(refusalOf(refused)).toEqual([404, "payment.unknown"]);
});
