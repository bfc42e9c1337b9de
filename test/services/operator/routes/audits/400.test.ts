import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test.each(["limit=0", "limit=501", "cursor=x"])(
  "the list of audits is refused with 400 for %s",
  async (query) => {
    const { get } = await fixture.start();
    expect(refusalOf(await get(`/api/v1/payments/audits?${query}`))).toEqual([400, "request.malformed"]);
  },
);
