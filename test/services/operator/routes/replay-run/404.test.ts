import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("a run that is not there is 404, and so is a discard among the replays", async () => {
  const { get, post } = await fixture.start();
  expect(refusalOf(await get(`/api/v1/failed/replays/run_${"0".repeat(32)}`))).toEqual([404, "run.unknown"]);
  const discard = (await post("/api/v1/failed/discards", { all: true, reason: "x" })).json()["id"];
  expect(refusalOf(await get(`/api/v1/failed/replays/${discard}`))).toEqual([404, "run.unknown"]);
  expect(refusalOf(await get("/api/v1/failed/replays/1"))).toEqual([404, "request.not_found"]);
});
