import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("a refused request that is not there (any more) is 404, and so is what is no such id", async () => {
  const { get } = await fixture.start();
  expect(refusalOf(await get("/api/v1/rejected/r_0000"))).toEqual([404, "rejected.unknown"]);
  expect(refusalOf(await get("/api/v1/rejected/r_"))).toEqual([404, "request.not_found"]);
});
