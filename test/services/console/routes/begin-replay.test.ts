import { describe, expect, test } from "vitest";
import { OPEN_RUNS_MAX } from "../../../../shared/console/runs/run.ts";
import { createRunStore } from "../../../../shared/console/runs/store.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { useRedis } from "../../../fixtures/redis.ts";
import { runIn } from "../run-of.ts";

describe("202", () => {
  const redis = useRedis();
  const fixture = useOperator({ redis });
  const calls = useFailedCalls({ redis });
  const DAY_MS = 86_400_000;

  test("a replay by a filter is a run, Location names its URL, and each call has its audit line", async () => {
    await calls.fail([{ path: "/a" }, { path: "/a" }, { path: "/b" }]);
    const service = await fixture.start();
    const begun = await service.post("/api/v1/failed/replays", {
      filter: { endpoint: "/a" },
      reason: "mended",
    });
    const location = String(begun.headers["location"]);
    expect([begun.status, location, begun.json()]).toEqual([
      202,
      `/api/v1/bulk/${begun.json()["id"]}`,
      {
        ...{
          id: expect.stringMatching(/^run_[0-9a-f]{32}$/),
          kind: "replay",
          by: "otto",
          resumed_by: null,
          reason: "mended",
        },
        ...{
          state: expect.stringMatching(/^(waiting|running)$/),
          selection: expect.any(String),
          dry_run: false,
        },
        ...{
          force: false,
          limit: null,
          begun_at: expect.any(String),
          ended_at: null,
          matched: null,
          by_code: null,
          paid: null,
        },
        ...{
          needs_force_count: null,
          outcome: null,
          needs_force: [],
          missing: [],
          done: 0,
          left_meanwhile: 0,
          refunds_due: null,
          remaining: null,
        },
        failure: null,
      },
    ]);
    expect(await runIn(service, location, "done")).toMatchObject({
      ...{
        matched: 2,
        by_code: { "runner.refused": 2 },
        done: 2,
        remaining: 0,
        left_meanwhile: 0,
        failure: null,
      },
      ...{ selection: expect.stringMatching(/^--endpoint \/a --until \S+Z$/), ended_at: expect.any(String) },
    });
    expect(await calls.calls.count({})).toBe(1);
    const run = location.split("/").at(-1);
    const line = {
      by: "otto",
      selection: expect.stringMatching(/^--endpoint \/a --until /),
      reason: "mended",
      run,
    };
    expect(await calls.audited()).toMatchObject([
      { action: "begin_replay", ...line },
      { action: "replay", ...line },
      { action: "replay", ...line },
    ]);
  });

  test("a dry run counts the calls by code, and changes nothing", async () => {
    await calls.fail([{}, {}]);
    await calls.fail([{ acceptedAt: Date.now() - 31 * DAY_MS }], "runner.failed");
    const service = await fixture.start();
    const begun = await service.post("/api/v1/failed/replays", {
      all: true,
      dry_run: true,
      reason: "a look",
    });
    expect(await runIn(service, String(begun.headers["location"]), "done")).toMatchObject({
      ...{ matched: 3, by_code: { "runner.refused": 2, "runner.failed": 1 }, done: 0, remaining: 2 },
      ...{ needs_force_count: 1, needs_force: [expect.stringMatching(/^c_/)] },
    });
    expect([await calls.calls.count({}), await calls.audited()]).toEqual([3, []]);
  });

  test("named calls are replayed, the others are reported with their place, and force includes old calls", async () => {
    const [old = "", young = "", other = ""] = await calls.fail([
      { acceptedAt: Date.now() - 31 * DAY_MS },
      {},
      {},
    ]);
    const unknown = `c_${"0".repeat(32)}`;
    const service = await fixture.start();
    const order = { call_ids: [old, young, unknown], force: true, reason: "harmless" };
    const begun = await service.post("/api/v1/failed/replays", order);
    expect(await runIn(service, String(begun.headers["location"]), "done")).toMatchObject({
      ...{ selection: "by id", matched: 2, done: 2, force: true },
      missing: [{ code: "call.unknown", detail: expect.stringContaining(unknown) }],
    });
    expect(await calls.calls.find(other)).toBeDefined();
  });

  test("with a limit only the oldest matching calls are replayed", async () => {
    await calls.fail([{}]);
    const [second = ""] = await calls.fail([{}]);
    const service = await fixture.start();
    const begun = await service.post("/api/v1/failed/replays", { all: true, limit: 1, reason: "one" });
    expect(await runIn(service, String(begun.headers["location"]), "done")).toMatchObject({
      matched: 1,
      done: 1,
    });
    expect(await calls.calls.find(second)).toBeDefined();
  });
});

describe("400", () => {
  const fixture = useOperator();
  const id = `c_${"0".repeat(32)}`;

  test.each([
    [{ reason: "x" }, /^filter: is empty: set a filter, call_ids, or all/],
    [{ filter: {}, reason: "x" }, /^filter: is empty/],
    [{ call_ids: [id], filter: { code: "runner.refused" }, reason: "x" }, /^call_ids: must not .* filter/],
    [{ all: true, filter: { code: "runner.refused" }, reason: "x" }, /^all: must not .* filter/],
    [{ all: true, call_ids: [id], reason: "x" }, /^all: must not .* call_ids/],
    [{ all: false, reason: "x" }, /^all: /],
    [{ all: true }, /^reason: is missing/],
    [{ filter: { code: "nope" }, reason: "x" }, /^filter\.code: must be an error code/],
    [{ filter: { job: 1 }, reason: "x" }, /^filter\.job: /],
    [{ call_ids: [], reason: "x" }, /^call_ids: /],
    [{ call_ids: ["c_1"], reason: "x" }, /^call_ids\.0: /],
    [{ call_ids: Array.from({ length: 1001 }, () => id), reason: "x" }, /^call_ids: /],
    [{ all: true, concurrency: 101, reason: "x" }, /^concurrency: /],
    [{ all: true, reason: "half a character: \ud83d" }, /^body: must not contain half a surrogate pair/],
    [{ filter: { endpoint: "\udc00" }, reason: "x" }, /^body: must not contain half a surrogate pair/],
  ])("a replay of %j is refused with 400, and nothing starts", async (order, detail) => {
    const { post, get } = await fixture.start();
    const refused = await post("/api/v1/failed/replays", order);
    expect([...refusalOf(refused), refused.json()["detail"]]).toEqual([
      ...[400, "request.malformed"],
      expect.stringMatching(detail),
    ]);
    expect((await get("/api/v1/bulk?kind=replay")).json()).toEqual({ runs: [] });
  });
});

describe("429", () => {
  const fixture = useOperator();

  test("a replay is refused with 429 while the maximum number of runs is open", async () => {
    const store = createRunStore(fixture.redis.partition);
    for (let i = 0; i < OPEN_RUNS_MAX; i++)
      await store.create({ kind: "of a later release", by: "x", request: {} });
    const { post } = await fixture.start();
    const refused = await post("/api/v1/failed/replays", { all: true, reason: "x" });
    expect(refusalOf(refused)).toEqual([429, "run.too_many"]);
    expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
  });
});
