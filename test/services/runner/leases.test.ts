import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { runnerKeys } from "../../fixtures/redis.ts";
import { type TestRunner, useRunners } from "../../fixtures/runners.ts";
import { gatedBoth, gatedLong, gatedShort, stateOf } from "./gated-jobs.ts";

const LEASE_MS = 300;

const runners = useRunners({ fresh: "test" });

test("a running runner keeps its calls, a short and a long one, for as long as they run, over many leases", async () => {
  const { short, long, jobs } = gatedBoth();
  const [here, there] = await Promise.all([
    runners.start({ jobs, lease_ms: LEASE_MS }),
    runners.start({ jobs, lease_ms: LEASE_MS }),
  ]);
  const first = here.offer("short");
  await here.offer("long", { job: 2 });
  await eventually("both run", () => short.runs > 0 && long.runs > 0);
  const since = Date.now();
  await eventually("three leases have passed", async () => {
    expect((await there.offer("short")).status).toBe(409);
    return Date.now() - since > 3 * LEASE_MS;
  });
  short.open();
  long.open();
  expect((await first).status).toBe(200);
  await eventually("it is done", async () => (await stateOf(there, "long")) === "done");
  expect([short.runs, long.runs]).toEqual([1, 1]);
});

test("a short call whose runner died runs again at another runner once the lease has expired", async () => {
  const { at, jobs } = gatedShort();
  const dying = await runners.start({ jobs, lease_ms: 400 });
  const other = await runners.start({ jobs, lease_ms: 400 });
  dying.offer("k").catch(() => {});
  await eventually("the handler runs", () => at.runs === 1);
  dying.drop();
  expect((await other.offer("k")).status).toBe(409);
  await eventually("the lease has lapsed", async () => (await stateOf(other, "k")) === "interrupted");
  at.open();
  expect((await other.offer("k")).text).toBe("run 2");
});

test("a long call whose runner died is resumed by exactly one of several runners once the lease has expired", async () => {
  const { at, jobs } = gatedLong();
  const dying = await runners.start({ jobs, lease_ms: LEASE_MS });
  expect((await dying.offer("k")).status).toBe(202);
  await eventually("it runs", () => at.runs === 1);
  dying.drop();
  const others = await Promise.all([1, 2, 3].map(() => runners.start({ jobs, lease_ms: LEASE_MS })));
  await eventually("it runs again", () => at.runs === 2);
  at.open();
  await eventually("it is done", async () => (await stateOf(others[0] as TestRunner, "k")) === "done");
  expect(at.runs).toBe(2);
  const resumed = others.flatMap(({ log }) => log.events.filter(({ event }) => event === "job.resumed"));
  expect(resumed.map(({ fields }) => fields)).toMatchObject([{ callId: "k", run: 2, attemptsFailed: 0 }]);
});

test("a run that another runner took over does not count as a failure of the call", async () => {
  const { at, jobs } = gatedLong();
  const runner = await runners.start({ jobs, long_attempts: 1, lease_ms: LEASE_MS });
  await runner.offer("k");
  await eventually("it runs", () => at.runs === 1);
  await runners.redis.client.hset(runnerKeys.call("k"), { owner: "another", lease: Date.now() + 60_000 });
  const ended = () => runner.log.events.filter(({ event }) => /^job\.(failed|interrupted)$/.test(event));
  await eventually("the run has ended", () => ended().length > 0);
  expect(ended().map(({ event }) => event)).toEqual(["job.interrupted"]);
  expect(await stateOf(runner, "k")).toBe("running");
});
