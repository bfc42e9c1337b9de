import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test.each([
  ["state=lost", /^state: /],
  ["payer=alice", /^payer: is no address/],
  ["disputed=yes", /^disputed: /],
  ["since=yesterday", /^since: /],
  ["cursor=nonsense", /^cursor: is not the `next`/],
  ["limit=0", /^limit: /],
])("the list of payments is refused with 400 for %s, and says what is wrong", async (query, detail) => {
  const { get } = await fixture.start();
  const refused = await get(`/api/v1/payments?${query}`);
  expect(refusalOf(refused)).toEqual([400, "request.malformed"]);
  expect(refused.json()["detail"]).toMatch(detail);
});
