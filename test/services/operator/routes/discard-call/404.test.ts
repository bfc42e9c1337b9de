import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("a call of which nothing is known cannot be discarded: 404", async () => {
  const { post } = await fixture.start();
  const answer = await post(`/api/v1/failed/c_${"0".repeat(32)}/discard`, { reason: "x" });
  expect(refusalOf(answer)).toEqual([404, "call.unknown"]);
});
