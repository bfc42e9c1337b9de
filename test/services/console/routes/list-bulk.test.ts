import { describe, expect, test } from "vitest";
import { createRunStore } from "../../../../shared/console/runs/store.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";
import { runIn } from "../run-of.ts";

const redis = useRedis();
const fixture = useOperator({ redis });

/** Unix ms. */
async function redisNow(): Promise<number> {
  const [secs, micros] = await redis.client.time();
  return Math.floor(Number(secs) * 1000 + Number(micros) / 1000);
}

describe("200", () => {
  test("the list of replays has the newest first, and no discards", async () => {
    const service = await fixture.start();
    const begin = async (what: string, reason: string) => {
      const begun = await service.post(`/api/v1/failed/${what}`, { all: true, reason });
      await runIn(service, String(begun.headers["location"]), "done");
    };
    await begin("replays", "first");
    await begin("discards", "no replay");
    await begin("replays", "second");
    const { runs } = (await service.get("/api/v1/bulk?kind=replay", { as: "viewer" })).json<{
      runs: { reason: string }[];
    }>();
    expect(runs.map(({ reason }) => reason)).toEqual(["second", "first"]);
    const newest = (await service.get("/api/v1/bulk?kind=replay&limit=1")).json<{
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
      expect(refusalOf(await get(`/api/v1/bulk?kind=replay&${query}`))).toEqual([400, "request.malformed"]);
    },
  );
});

describe("bulk operations that read the chain: 200", () => {
  test("before the first one, the lists of audits and of refund checks are empty", async () => {
    const { get } = await fixture.start();
    for (const kind of ["audit", "refund-check"]) {
      const listed = await get(`/api/v1/bulk?kind=${kind}`, { as: "viewer" });
      expect([listed.status, listed.json()]).toEqual([200, { runs: [] }]);
    }
  });

  test("the list has the newest audits without their results, which only an audit's own URL shows", async () => {
    const { get } = await fixture.start();
    const runs = createRunStore(redis.partition);
    const ids: string[] = [];
    for (let n = 0; n < 3; n++) {
      const { id } = await runs.create({ kind: "audit", by: "vera", request: {} });
      await runs.take("somebody else", 60_000, ["audit"]);
      await runs.hold(id, "somebody else", 60_000, { tokens: [] });
      ids.push(id);
      // Runs are ordered by the millisecond of their start.
      const begun = await redis.client.zscore(keys.runs, id);
      await eventually("the next one is newer", async () => (await redisNow()) > Number(begun));
    }
    const listed = await get("/api/v1/bulk?kind=audit&limit=2", { as: "viewer" });
    expect(listed.json()).toMatchObject({
      runs: [
        { id: ids[2], result: null },
        { id: ids[1], result: null },
      ],
    });
    const shown = await get(`/api/v1/bulk/${ids[2]}`, { as: "viewer" });
    expect(shown.json()).toMatchObject({ result: { tokens: [] } });
  });
});

describe("bulk operations that read the chain: 400", () => {
  test.each(["limit=0", "limit=501", "cursor=x"])(
    "the list of audits is refused with 400 for %s",
    async (query) => {
      const { get } = await fixture.start();
      expect(refusalOf(await get(`/api/v1/bulk?kind=audit&${query}`))).toEqual([400, "request.malformed"]);
    },
  );
});
