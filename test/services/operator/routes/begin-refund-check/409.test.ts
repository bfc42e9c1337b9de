import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("without the tokens' configuration no refund can be looked for: 409", async () => {
  const { post } = await fixture.start();
  expect(refusalOf(await post("/api/v1/payments/refund-checks", {}))).toEqual([409, "token.unconfigured"]);
});
