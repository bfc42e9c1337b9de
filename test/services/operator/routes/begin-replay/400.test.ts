import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();
const id = `c_${"0".repeat(32)}`;

test.each([
  [{ reason: "x" }, /^filter: is empty, and no call is named/],
  [{ filter: {}, reason: "x" }, /^filter: is empty/],
  [{ all: false, reason: "x" }, /^all: /],
  [{ all: true }, /^reason: is missing/],
  [{ filter: { code: "nope" }, reason: "x" }, /^filter\.code: is no error code/],
  [{ filter: { job: 1 }, reason: "x" }, /^filter\.job: /],
  [{ call_ids: [], reason: "x" }, /^call_ids: /],
  [{ call_ids: ["c_1"], reason: "x" }, /^call_ids\.0: /],
  [{ call_ids: Array.from({ length: 1001 }, () => id), reason: "x" }, /^call_ids: /],
  [{ all: true, concurrency: 101, reason: "x" }, /^concurrency: /],
])("a replay of %j is refused with 400, and begins nothing", async (order, detail) => {
  const { post, get } = await fixture.start();
  const refused = await post("/api/v1/failed/replays", order);
  expect([...refusalOf(refused), refused.json()["detail"]]).toEqual([
    ...[400, "request.malformed"],
    expect.stringMatching(detail),
  ]);
  expect((await get("/api/v1/failed/replays")).json()).toEqual({ runs: [] });
});
