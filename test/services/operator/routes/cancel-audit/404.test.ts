import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("an audit that was never begun cannot be cancelled: 404", async () => {
  const { ask } = await fixture.start();
  const refused = await ask("DELETE", `/api/v1/payments/audits/run_${"0".repeat(32)}`);
  expect(refusalOf(refused)).toEqual([404, "run.unknown"]);
});
