import { expect, test } from "vitest";
import { useOperator } from "../../../../fixtures/operator.ts";
import { runIn } from "../../run-of.ts";

const fixture = useOperator();

test("the list has the last replays, the newest first, and no discards", async () => {
  const service = await fixture.start();
  const begin = async (what: string, reason: string) => {
    const begun = await service.post(`/api/v1/failed/${what}`, { all: true, reason });
    await runIn(service, String(begun.headers["location"]), "done");
  };
  await begin("replays", "first");
  await begin("discards", "no replay");
  await begin("replays", "second");
  const { runs } = (await service.get("/api/v1/failed/replays", { as: "viewer" })).json<{
    runs: { reason: string }[];
  }>();
  expect(runs.map(({ reason }) => reason)).toEqual(["second", "first"]);
  const newest = (await service.get("/api/v1/failed/replays?limit=1")).json<{ runs: { reason: string }[] }>();
  expect(newest.runs.map(({ reason }) => reason)).toEqual(["second"]);
});
