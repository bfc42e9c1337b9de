import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("what was spent elsewhere cannot be told without the tokens' configuration: 409", async () => {
  const { get } = await fixture.start();
  const refused = await get("/api/v1/payments/spent-elsewhere");
  expect(refusalOf(refused)).toEqual([409, "token.unconfigured"]);
});
