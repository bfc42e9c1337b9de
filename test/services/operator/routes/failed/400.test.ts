import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();
const cursor = (place: unknown) => Buffer.from(JSON.stringify(place)).toString("base64url");

test.each([
  ["?limit=0", /^limit: /],
  ["?limit=501", /^limit: /],
  ["?limit=ten", /^limit: must be a whole number/],
  ["?origin=mail", /^origin: must be /],
  ["?code=runner.nope", /^code: is no error code/],
  ["?since=yesterday", /^since: /],
  ["?cursor=nonsense", /^cursor: is not the `next`/],
  [`?cursor=${cursor({ failedAt: "1", id: "x" })}`, /^cursor/],
  ["?job=1", /^job: /],
  ["?limit=1&limit=2", /^limit: comes more than once/],
])(
  "the list of failed calls is refused with 400 for %s, and says which parameter is wrong",
  async (query, detail) => {
    const { get } = await fixture.start();
    const refused = await get(`/api/v1/failed${query}`);
    expect(refusalOf(refused)).toEqual([400, "request.malformed"]);
    expect(refused.json()["detail"]).toMatch(detail);
  },
);
