import { describe, expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { runIn } from "../run-of.ts";

const fixture = useOperator();

describe("200", () => {
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
    const newest = (await service.get("/api/v1/failed/replays?limit=1")).json<{
      runs: { reason: string }[];
    }>();
    expect(newest.runs.map(({ reason }) => reason)).toEqual(["second"]);
  });
});

describe("400", () => {
  test.each(["limit=0", "limit=501", "cursor=x"])(
    "the list of replays is refused with 400 for %s",
    async (query) => {
      const { get } = await fixture.start();
      expect(refusalOf(await get(`/api/v1/failed/replays?${query}`))).toEqual([400, "request.malformed"]);
    },
  );
});
