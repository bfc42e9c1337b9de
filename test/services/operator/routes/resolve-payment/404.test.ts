import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("nothing is decided about a payment that is not in the journal: 404", async () => {
  const { post } = await fixture.start();
  const decision = { verdict: "void", reason: "x" };
  const refused = await post(`/api/v1/payments/c_${"0".repeat(32)}/resolve`, decision);
  expect(refusalOf(refused)).toEqual([404, "payment.unknown"]);
});
