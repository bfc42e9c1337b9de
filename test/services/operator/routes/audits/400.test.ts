import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("a list of audits takes a limit up to 500, and nothing else", async () => {
  const { get } = await fixture.start();
  for (const query of ["limit=0", "limit=501", "cursor=x"])
    expect([query, ...refusalOf(await get(`/api/v1/payments/audits?${query}`))]).toEqual([
      query,
      400,
      "request.malformed",
    ]);
});
