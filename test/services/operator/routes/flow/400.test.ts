import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test.each(["?span=2h", "?job=7", "?job=07/1", "?origin=webhook"])(
  "a flow of %s is refused",
  async (query) => {
    const { get } = await fixture.start();
    expect(refusalOf(await get(`/api/v1/flow${query}`))).toEqual([400, "request.malformed"]);
  },
);
