import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { runIn } from "../../run-of.ts";

const fixture = useOperator();

test("a run that is done cannot go on: 409", async () => {
  const service = await fixture.start();
  const begun = await service.post("/api/v1/failed/replays", { all: true, reason: "x" });
  const location = String(begun.headers["location"]);
  await runIn(service, location, "done");
  expect(refusalOf(await service.post(`${location}/resume`, {}))).toEqual([409, "run.not_resumable"]);
});
