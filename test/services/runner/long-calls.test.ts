import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { runnerKeys, useOwnRedis } from "../../fixtures/redis.ts";
import { useRunners } from "../../fixtures/runners.ts";
import { gatedLong, hasLogged, longJob, stateOf } from "./gated-jobs.ts";

const redis = useOwnRedis();
const runners = useRunners({ redis, fresh: "test" });

test("a failing long call is tried again by its runner, then FAILED and kept, and a new request starts it again", async () => {
  let runs = 0;
  const healthy = { now: false };
  const jobs = longJob(async () => {
    runs += 1;
    if (!healthy.now) throw new Error(`no luck ${runs}`);
  });
  const options = {
    jobs,
    long_attempts: 3,
    long_backoff: { base_ms: 10, cap_ms: 20 },
    memory_secs: 0.001,
    lease_ms: 150,
  };
  const runner = await runners.start(options);
  await runner.offer("k");
  await eventually("it has failed", async () => (await stateOf(runner, "k")) === "failed");
  expect(runs).toBe(3);
  const failures = runner.log.events
    .filter(({ event }) => event === "job.failed")
    .map(({ fields }) => fields);
  expect(failures).toMatchObject([
    { attempt: 1, final: false, reason: "no luck 1" },
    { attempt: 2, final: false, reason: "no luck 2" },
    { attempt: 3, final: true, reason: "no luck 3" },
  ]);
  const since = Date.now();
  await eventually("its memory and its lease are over", () => Date.now() - since > 500);
  await runner.offer("another key");
  const listed = (await runner.get("/calls?state=failed")).json<{
    calls: { id: string; code: string }[];
  }>();
  expect(listed.calls).toMatchObject([{ id: "k", code: "runner.handler_failed", attempts_failed: 3 }]);
  healthy.now = true;
  const again = await runner.offer("k");
  expect([again.status, again.headers["idempotent-replayed"]]).toEqual([202, undefined]);
  await eventually("its end", () => hasLogged(runner, "job.finished", "k"));
});

test("a failed long call is kept with the number of its attempts, and a failed short call is deleted after a time", async () => {
  const jobs = longJob(() => Promise.reject(new Error("the dependency is down")));
  jobs.job(2, { name: "short", handler: () => ({ status: 503 }) });
  const runner = await runners.start({ jobs, long_attempts: 2, long_backoff: { base_ms: 1, cap_ms: 1 } });
  await runner.offer("kept");
  await eventually("it has failed", async () => (await stateOf(runner, "kept")) === "failed");
  await runner.offer("passing", { job: 2 });
  expect(await stateOf(runner, "passing")).toBe("failed");
  expect((await runner.get("/calls/kept")).json()).toMatchObject({ status: 500, attempts_failed: 2 });
  expect(await redis.client.pttl(runnerKeys.call("kept"))).toBe(-1);
  expect(await redis.client.pttl(runnerKeys.call("passing"))).toBeGreaterThan(0);
});

test("a long call survives 19 failures with the default configuration", async () => {
  const jobs = longJob(() => Promise.reject(new Error("the dependency is down")));
  // All pauses have their shortest length, so that the calls end by the number of attempts and not by time.
  const runner = await runners.start({ jobs, random: () => 0 });
  await runner.offer("k");
  await eventually("it has failed", async () => (await stateOf(runner, "k")) === "failed");
  const attempts = runner.log.events.filter(({ event }) => event === "job.failed");
  expect(attempts).toHaveLength(20);
});

test("a long call that was stored when Redis crashed runs when Redis is back", async () => {
  const { at, jobs } = gatedLong();
  const runner = await runners.start({ jobs, lease_ms: 300 });
  await runner.offer("k");
  runner.drop();
  await redis.server.kill("SIGKILL");
  await redis.server.restart();
  at.open();
  const other = await runners.start({ jobs, lease_ms: 300 });
  await eventually("it is done", async () => (await stateOf(other, "k")) === "done");
});

test("a long handler does not run again if Redis is restarted between its end and the write of the result", async () => {
  const { at, jobs } = gatedLong();
  const runner = await runners.start({ jobs, lease_ms: 300 });
  await runner.offer("k");
  await eventually("it runs", () => at.runs === 1);
  await redis.server.kill("SIGKILL");
  at.open();
  await eventually("its end cannot be stored", () => hasLogged(runner, "job.store_delayed"));
  await redis.server.restart();
  await eventually("it is done", async () => (await stateOf(runner, "k")) === "done");
  expect(at.runs).toBe(1);
});
