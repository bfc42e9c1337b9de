import { expect, test } from "vitest";
import { useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("before the first audit the list of them is empty, and so is that of the looks for refunds", async () => {
  const { get } = await fixture.start();
  for (const kind of ["audits", "refund-checks"]) {
    const listed = await get(`/api/v1/payments/${kind}`, { as: "viewer" });
    expect([listed.status, listed.json()]).toEqual([200, { runs: [] }]);
  }
});
