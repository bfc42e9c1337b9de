import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test.each(["0", "91", "-1", "ten"])("revenue of %s days is refused", async (days) => {
  const { get } = await fixture.start();
  expect(refusalOf(await get(`/api/v1/revenue?days=${days}`))).toEqual([400, "request.malformed"]);
});
