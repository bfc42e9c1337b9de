import { describe, expect, test } from "vitest";
import { createRunStore } from "../../../../shared/console/runs/store.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useRedis } from "../../../fixtures/redis.ts";
import { runIn } from "../run-of.ts";

const redis = useRedis();
const fixture = useOperator({ redis });

describe("200", () => {
  test("any replica shows a run, also to a viewer", async () => {
    const [one, other] = [await fixture.start(), await fixture.start()];
    const begun = await one.post("/api/v1/failed/replays", { all: true, reason: "nothing is there" });
    const location = String(begun.headers["location"]);
    await runIn(one, location, "done");
    const shown = await other.get(location, { as: "viewer" });
    expect([shown.status, shown.json()]).toMatchObject([200, { state: "done", matched: 0, done: 0 }]);
  });
});

describe("404", () => {
  test("an unknown bulk operation gets 404", async () => {
    const { get } = await fixture.start();
    expect(refusalOf(await get(`/api/v1/bulk/run_${"0".repeat(32)}`))).toEqual([404, "run.unknown"]);
    expect(refusalOf(await get("/api/v1/bulk/1"))).toEqual([404, "request.not_found"]);
  });
});

describe("bulk operations that read the chain: 200", () => {
  test("a waiting audit is shown with the operator who began it, and without a result", async () => {
    const { get } = await fixture.start();
    const runs = createRunStore(redis.partition);
    // Another operator begins it.
    const run = await runs.create({ kind: "audit", by: "vera", request: { network: "eip155:1" } });
    await runs.take("somebody else", 60_000, ["audit"]);
    const shown = await get(`/api/v1/bulk/${run.id}`, { as: "viewer" });
    expect([shown.status, shown.json()]).toMatchObject([
      ...[200, { id: run.id, by: "vera", order: { network: "eip155:1" }, ended_at: null }],
    ]);
  });
});

describe("bulk operations that read the chain: 404", () => {
  test("an unknown audit and a bulk operation of another kind get 404", async () => {
    const { get } = await fixture.start();
    const unknown = await get(`/api/v1/bulk/run_${"0".repeat(32)}`);
    expect(refusalOf(unknown)).toEqual([404, "run.unknown"]);
    const { id } = await createRunStore(redis.partition).create({ kind: "other", by: "x", request: {} });
    expect(refusalOf(await get(`/api/v1/bulk/${id}`))).toEqual([404, "run.unknown"]);
  });
});
