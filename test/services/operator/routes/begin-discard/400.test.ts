import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test.each([[{ reason: "x" }], [{ all: true }], [{ all: true, force: true, reason: "x" }]])(
  "a discard of %j is refused with 400",
  async (order) => {
    const { post } = await fixture.start();
    expect(refusalOf(await post("/api/v1/failed/discards", order))).toEqual([400, "request.malformed"]);
  },
);
