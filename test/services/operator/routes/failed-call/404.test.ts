import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("a call of which nothing is known is 404, and so is what is no call id", async () => {
  const { get } = await fixture.start();
  expect(refusalOf(await get(`/api/v1/failed/c_${"0".repeat(32)}`))).toEqual([404, "call.unknown"]);
  expect(refusalOf(await get("/api/v1/failed/c_1"))).toEqual([404, "request.not_found"]);
});
