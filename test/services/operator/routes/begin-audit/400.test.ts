import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { usePayments } from "../../../../fixtures/payments.ts";

const payments = usePayments();
const fixture = useOperator({ redis: payments.redis });

test.each([
  [{ from_block: 7 }, /^from_block: /],
  [{ from_block: "first" }, /^from_block: is no block/],
  [{ from_block: "9", to_block: "8" }, /^from_block: block 9 is after block 8/],
  [{ network: "eip155:1" }, /^network: choose one of eip155:/],
  [{ since: "today" }, /since/],
])("an audit of %j is refused with 400, and says what is wrong", async (order, detail) => {
  const { post } = await fixture.start({ configDir: payments.postern.configDir });
  const refused = await post("/api/v1/payments/audits", order);
  expect(refusalOf(refused)).toEqual([400, "request.malformed"]);
  expect(refused.json()["detail"]).toMatch(detail);
});
