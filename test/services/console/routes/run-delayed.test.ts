import { describe, expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { useRedis } from "../../../fixtures/redis.ts";
import { delayCalls } from "../../../support/delay-calls.ts";

const redis = useRedis();
const calls = useFailedCalls({ redis });
const fixture = useOperator({ redis });
const why = { reason: "the runner is repaired" };

describe("200", () => {
  test("the delayed calls of a job become waiting, with one audit line, and a second time there are none", async () => {
    await calls.add();
    await calls.add({ origin: "x402" });
    await delayCalls(redis.partition);
    const { post } = await fixture.start();
    const run = await post("/api/v1/jobs/7/1/run-delayed", why);
    expect([run.status, run.json()]).toMatchObject([
      200,
      { calls: 2, has_queue: true, job: { job: "7/1", waiting: 2, delayed: 0 } },
    ]);
    expect((await post("/api/v1/jobs/7/1/run-delayed", why)).json()).toMatchObject({ calls: 0 });
    expect(await calls.audited()).toMatchObject([
      { action: "run_delayed", job: "7/1", by: "otto", reason: why.reason },
    ]);
  });

  test("a job without a queue has no delayed calls, and the answer says so", async () => {
    const { post } = await fixture.start();
    expect((await post("/api/v1/jobs/7/9/run-delayed", why)).json()).toMatchObject({
      ...{ calls: 0, has_queue: false },
    });
  });
});

describe("400", () => {
  test("without a reason no call is run: 400", async () => {
    await calls.add();
    const [id] = await delayCalls(redis.partition);
    const { post, get } = await fixture.start();
    expect(refusalOf(await post("/api/v1/jobs/7/1/run-delayed", {}))).toEqual([400, "request.malformed"]);
    expect((await get(`/api/v1/calls/${id}`)).json()).toMatchObject({ queue: { as: "delayed" } });
  });
});
