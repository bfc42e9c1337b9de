import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();
const TRANSACTION = `0x${"ab".repeat(32)}`;

test.each([
  [{ verdict: "void" }, /^reason: /],
  [{ verdict: "settled", reason: "x" }, /^transaction: /],
  [{ verdict: "settled", reason: "x", transaction: "0x12" }, /^transaction: is no transaction/],
  [{ verdict: "void", reason: "x", transaction: TRANSACTION }, /transaction/],
  [{ verdict: "paid", reason: "x" }, /^verdict: /],
])("a decision %j is refused with 400, and says what is wrong", async (decision, detail) => {
  const { post } = await fixture.start();
  const refused = await post(`/api/v1/payments/c_${"0".repeat(32)}/resolve`, decision);
  expect(refusalOf(refused)).toEqual([400, "request.malformed"]);
  expect(refused.json()["detail"]).toMatch(detail);
});
