import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("a call of which nothing is known is 404, and so is what is no call id", async () => {
  const { get } = await fixture.start();
  const unknown = await get(`/api/v1/calls/c_${"0".repeat(32)}`);
  expect(refusalOf(unknown)).toEqual([404, "call.unknown"]);
  expect(unknown.json()["detail"]).toContain("nothing is known of such a call");
  expect(refusalOf(await get("/api/v1/calls/c_1"))).toEqual([404, "request.not_found"]);
});
