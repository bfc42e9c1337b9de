import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("a payment that is not in the journal is 404, and so is what is no call id", async () => {
  const { get } = await fixture.start();
  const unknown = await get(`/api/v1/payments/c_${"0".repeat(32)}`);
  expect(refusalOf(unknown)).toEqual([404, "payment.unknown"]);
  expect(refusalOf(await get("/api/v1/payments/all"))).toEqual([404, "request.not_found"]);
});
