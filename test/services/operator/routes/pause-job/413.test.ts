import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("a body that is longer than any request is refused with 413", async () => {
  const { post } = await fixture.start();
  const refused = await post("/api/v1/jobs/7/1/pause", { reason: "x".repeat(200_000) });
  expect(refusalOf(refused)).toEqual([413, "request.too_large"]);
});
