import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test.each([
  "since=today",
  "limit=0",
  "cursor=nonsense",
  "who=alice",
  "action=PAUSE",
  "call_id=c_1",
  "job=07/1",
  "job=callback/..",
])("the audit trail is refused with 400 for %s", async (query) => {
  const { get } = await fixture.start();
  expect(refusalOf(await get(`/api/v1/audit?${query}`))).toEqual([400, "request.malformed"]);
});
