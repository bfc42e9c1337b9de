import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("without the tokens' configuration nothing can be audited: 500", async () => {
  const { post } = await fixture.start();
  expect(refusalOf(await post("/api/v1/payments/audits", {}))).toEqual([500, "start.config_invalid"]);
});
