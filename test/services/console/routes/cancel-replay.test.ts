import { describe, expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { useRedis } from "../../../fixtures/redis.ts";
import { multiplyFailed } from "../../../support/multiply-failed.ts";
import { runIn } from "../run-of.ts";

const redis = useRedis();
const fixture = useOperator({ redis });

describe("200", () => {
  const calls = useFailedCalls({ redis });
  const CALLS = 1000;

  test("a replay that is cancelled half way leaves the rest as it was; resumed, it does exactly that rest", async () => {
    const [id = ""] = await calls.fail([{}]);
    await multiplyFailed(redis.partition, {
      ...{ of: { id, queue: "webhook/7/1" }, copies: CALLS - 1, queues: ["webhook/7/1"], everyMs: -1 },
    });
    const service = await fixture.start();
    const begun = await service.post("/api/v1/failed/replays", {
      all: true,
      concurrency: 1,
      reason: "mended",
    });
    const location = String(begun.headers["location"]);
    await expect
      .poll(async () => (await service.get(location)).json<{ done: number }>().done, {
        interval: 5,
        timeout: 60_000,
      })
      .toBeGreaterThan(0);
    const cancelled = await service.ask("DELETE", location);
    expect([cancelled.status, cancelled.json()["state"]]).toEqual([200, "cancelling"]);
    const left = await runIn(service, location, "cancelled");
    expect(left.done).toBeLessThan(CALLS);
    expect(left.remaining).toBe(CALLS - left.done);
    expect(await calls.calls.count({})).toBe(left.remaining);
    expect((await service.ask("DELETE", location)).json()).toMatchObject({ state: "cancelled" });

    expect((await service.post(`${location}/resume`, {})).status).toBe(202);
    expect(await runIn(service, location, "done")).toMatchObject({
      ...{ matched: CALLS, done: CALLS, remaining: 0, left_meanwhile: 0 },
    });
    expect(await calls.calls.count({})).toBe(0);
    const actions = (await calls.audited()).map(({ action }) => action);
    expect(actions.filter((action) => action !== "replay")).toEqual([
      ...["begin_replay", "cancel_run", "resume_run"],
    ]);
    expect(actions).toHaveLength(CALLS + 3);
  });
});

describe("404", () => {
  test("a run that is not there cannot be cancelled: 404", async () => {
    const { ask } = await fixture.start();
    const answer = await ask("DELETE", `/api/v1/failed/replays/run_${"0".repeat(32)}`);
    expect(refusalOf(answer)).toEqual([404, "run.unknown"]);
  });
});
