import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("nobody waits for longer than half a minute: 400", async () => {
  const { post } = await fixture.start();
  const refused = await post(`/api/v1/payments/c_${"0".repeat(32)}/reconcile`, { wait_ms: 30_001 });
  expect(refusalOf(refused)).toEqual([400, "request.malformed"]);
});
