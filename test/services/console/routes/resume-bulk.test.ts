import { describe, expect, test } from "vitest";
import { createRunStore } from "../../../../shared/console/runs/store.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { refusalOf, TWO_TOKENS, useOperator } from "../../../fixtures/console.ts";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { asUser, keys, useRedis } from "../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../fixtures/redis-proxy.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { multiplyFailed } from "../../../support/multiply-failed.ts";
import { auditOf } from "../audit-of.ts";
import { runIn } from "../run-of.ts";

const redis = useRedis();
const fixture = useOperator({ redis });

describe("202", () => {
  const calls = useFailedCalls({ redis });

  test("a replay that has stopped continues where it was, once the cause of the stop is fixed", async () => {
    const ids = await calls.fail([{}, {}, {}]);
    // The run stops at a record that it cannot read.
    await redis.client.hset(keys.record(ids[1] ?? ""), "st", "LATER");
    const service = await fixture.start();
    const begun = await service.post("/api/v1/failed/replays", { all: true, concurrency: 1, reason: "x" });
    const location = String(begun.headers["location"]);
    const stopped = await runIn(service, location, "stopped");
    expect(stopped).toMatchObject({ failure: { code: "record.unreadable" }, matched: 3 });
    await redis.client.hset(keys.record(ids[1] ?? ""), "st", "FAILED");
    const resumed = await service.post(`${location}/resume`, {});
    expect([resumed.status, resumed.json()]).toMatchObject([202, { failure: null }]);
    expect(await runIn(service, location, "done")).toMatchObject({ done: 3, remaining: 0 });
    expect(await createRunStore(redis.partition).find(stopped.id)).toMatchObject({ failure: undefined });
  });

  test("after a resume the audit log names the operator who resumed the run", async () => {
    // The calls fail one after the other, because a run takes the oldest failure first.
    const ids = [...(await calls.fail([{}])), ...(await calls.fail([{}]))];
    await redis.client.hset(keys.record(ids[1] ?? ""), "st", "LATER");
    const olga = { name: "olga", role: "operator", token: "a-second-operators-token-of-a-test" };
    const service = await fixture.start({ operator: { tokens: [...TWO_TOKENS, olga] } });
    const begun = await service.post("/api/v1/failed/replays", { all: true, concurrency: 1, reason: "x" });
    const location = String(begun.headers["location"]);
    await runIn(service, location, "stopped");
    await redis.client.hset(keys.record(ids[1] ?? ""), "st", "FAILED");
    const asOlga = { headers: { Authorization: `Bearer ${olga.token}` } };
    expect((await service.post(`${location}/resume`, {}, asOlga)).status).toBe(202);
    expect(await runIn(service, location, "done")).toMatchObject({ by: "otto", resumed_by: "olga" });
    const { runs } = (await service.get("/api/v1/bulk?kind=replay")).json<{ runs: object[] }>();
    expect(runs).toMatchObject([{ by: "otto", resumed_by: "olga" }]);
    expect(await auditOf(redis)).toMatchObject([
      { action: "begin_replay", by: "otto" },
      { action: "replay", call_id: ids[0], by: "otto" },
      { action: "resume_run", by: "olga" },
      { action: "replay", call_id: ids[1], by: "olga" },
    ]);
  });

  onlyInLongRun(() => {
    const proxy = useRedisProxy(redis);

    test("a resumed replay skips calls that have failed again since, although another has left and the limit allows one more", async () => {
      const ALL = 300;
      const [id = ""] = await calls.fail([{}]);
      await multiplyFailed(redis.partition, {
        of: { id, queue: "webhook/7/1" },
        copies: ALL - 1,
        everyMs: -1,
      });
      const service = await fixture.start({ redisUrl: asUser(proxy.url, "operator") });
      calls.runnerAnswers("runner.refused");
      await calls.startProducer();
      // The delay makes the run last for seconds, and a cancellation needs half a second.
      proxy.replyPauseMs = () => 20;
      const order = { filter: { until: "2100-01-01T00:00:00Z" }, concurrency: 1, reason: "x" };
      const location = String((await service.post("/api/v1/failed/replays", order)).headers["location"]);
      await eventually("some are done", async () => {
        return (await service.get(location)).json<{ done: number }>().done > 0;
      });
      await service.ask("DELETE", location);
      const { done, remaining } = await runIn(service, location, "cancelled");
      proxy.replyPauseMs = () => 0;
      expect(remaining).toBeGreaterThan(1);
      await calls.untilFailed(ALL);
      // The newest of the first failures would be the last one to be replayed.
      expect((await service.post(`/api/v1/failed/${id}/discard`, { reason: "x" })).status).toBe(204);
      await service.post(`${location}/resume`, {});
      expect(await runIn(service, location, "done")).toMatchObject({
        ...{ matched: ALL, done: done + Number(remaining) - 1, left_meanwhile: 1, remaining: 0 },
      });
      const replayed = (await calls.audited()).filter(({ action }) => action === "replay");
      expect(new Set(replayed.map(({ call_id }) => call_id)).size).toBe(replayed.length);
    });
  });
});

describe("404", () => {
  test("an unknown bulk operation cannot be resumed: 404", async () => {
    const { post } = await fixture.start();
    const answer = await post(`/api/v1/bulk/run_${"0".repeat(32)}/resume`, {});
    expect(refusalOf(answer)).toEqual([404, "run.unknown"]);
  });
});

describe("409", () => {
  test("a bulk operation that is done cannot be resumed: 409", async () => {
    const service = await fixture.start();
    const begun = await service.post("/api/v1/failed/replays", { all: true, reason: "x" });
    const location = String(begun.headers["location"]);
    await runIn(service, location, "done");
    expect(refusalOf(await service.post(`${location}/resume`, {}))).toEqual([409, "run.not_resumable"]);
  });
});
