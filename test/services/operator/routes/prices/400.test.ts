import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test.each(["?span=2h", "?token=USDC"])("prices of %s are refused", async (query) => {
  const { get } = await fixture.start();
  expect(refusalOf(await get(`/api/v1/prices${query}`))).toEqual([400, "request.malformed"]);
});
