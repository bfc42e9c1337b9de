import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test.each([
  ["id=c_123", /^id: /],
  ["payer=alice", /^payer: is no address/],
  ["transaction=0x12", /^transaction: is no transaction/],
  ["job=7", /^job: is not <service id>/],
  ["state=lost", /^state: /],
  ["since=yesterday", /^since: /],
  ["cursor=nonsense", /^cursor: is not the `next`/],
  ["limit=501", /^limit: /],
  ["delivery=1", /^delivery: /],
])("a search for %s is refused with 400, and says what is wrong", async (query, detail) => {
  const { get } = await fixture.start();
  const refused = await get(`/api/v1/calls?${query}`);
  expect(refusalOf(refused)).toEqual([400, "request.malformed"]);
  expect(refused.json()["detail"]).toMatch(detail);
});
