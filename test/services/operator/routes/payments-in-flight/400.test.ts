import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test.each(["limit=0", "cursor=nonsense", "state=settling"])(
  "the list of payments in flight is refused with 400 for %s",
  async (query) => {
    const { get } = await fixture.start();
    expect(refusalOf(await get(`/api/v1/payments/in-flight?${query}`))).toEqual([400, "request.malformed"]);
  },
);
