import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("a span, job or wish that there is not is 400", async () => {
  const { get } = await fixture.start();
  for (const query of ["flow=2h", "job=echo", "jobs=yes", "payments=true"])
    expect([query, ...refusalOf(await get(`/api/v1/live?${query}`))]).toEqual([
      ...[query, 400, "request.malformed"],
    ]);
});
