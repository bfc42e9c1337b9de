import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test.each(["code=none", "unknown=1", "since=today", "limit=0", "cursor=nonsense"])(
  "the list of refused requests is refused with 400 for %s",
  async (query) => {
    const { get } = await fixture.start();
    expect(refusalOf(await get(`/api/v1/rejected?${query}`))).toEqual([400, "request.malformed"]);
  },
);
