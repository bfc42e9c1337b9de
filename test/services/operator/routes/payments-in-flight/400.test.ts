import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("a limit above 500, a cursor of no answer and a filter are 400", async () => {
  const { get } = await fixture.start();
  for (const query of ["limit=0", "limit=501", "cursor=x", "state=settling"])
    expect([query, ...refusalOf(await get(`/api/v1/payments/in-flight?${query}`))]).toEqual([
      query,
      400,
      "request.malformed",
    ]);
});
