import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("the body of a call of which nothing is known is 404", async () => {
  const { get } = await fixture.start();
  expect(refusalOf(await get(`/api/v1/failed/c_${"0".repeat(32)}/body`))).toEqual([404, "call.unknown"]);
});
