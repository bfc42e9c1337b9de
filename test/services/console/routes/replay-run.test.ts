import { describe, expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { runIn } from "../run-of.ts";

const fixture = useOperator();

describe("200", () => {
  test("any replica shows a run, to a viewer too", async () => {
    const [one, other] = [await fixture.start(), await fixture.start()];
    const begun = await one.post("/api/v1/failed/replays", { all: true, reason: "nothing is there" });
    const location = String(begun.headers["location"]);
    await runIn(one, location, "done");
    const shown = await other.get(location, { as: "viewer" });
    expect([shown.status, shown.json()]).toMatchObject([200, { state: "done", matched: 0, done: 0 }]);
  });
});

describe("404", () => {
  test("a run that is not there is 404, and so is a discard among the replays", async () => {
    const { get, post } = await fixture.start();
    expect(refusalOf(await get(`/api/v1/failed/replays/run_${"0".repeat(32)}`))).toEqual([
      404,
      "run.unknown",
    ]);
    const discard = (await post("/api/v1/failed/discards", { all: true, reason: "x" })).json()["id"];
    expect(refusalOf(await get(`/api/v1/failed/replays/${discard}`))).toEqual([404, "run.unknown"]);
    expect(refusalOf(await get("/api/v1/failed/replays/1"))).toEqual([404, "request.not_found"]);
  });
});
