import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();
const CALL = `c_${"0".repeat(32)}`;

test.each([
  [{ call_ids: [CALL] }, /^reason: /],
  [{ call_ids: [], reason: "x" }, /^call_ids: /],
  [{ call_ids: ["c_1"], reason: "x" }, /^call_ids/],
  [{ id: "mine", call_ids: [CALL], reason: "x" }, /^id: /],
])("an export of %j is refused with 400, and says what is wrong", async (order, detail) => {
  const { post } = await fixture.start();
  const refused = await post("/api/v1/payments/refunds/exports", order);
  expect(refusalOf(refused)).toEqual([400, "request.malformed"]);
  expect(refused.json()["detail"]).toMatch(detail);
});
