import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("a call of which nothing is known cannot be forgotten: 404", async () => {
  const { post } = await fixture.start();
  const refused = await post(`/api/v1/calls/c_${"0".repeat(32)}/forget`, { reason: "x" });
  expect(refusalOf(refused)).toEqual([404, "call.unknown"]);
});
