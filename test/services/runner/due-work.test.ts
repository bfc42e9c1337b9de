import { expect, test } from "vitest";
import type { Due } from "../../../services/runner/due.ts";
import { DueWork } from "../../../services/runner/due-work.ts";
import { randomCallId } from "../../../shared/call/call-id.ts";
import { freePort } from "../../../shared/dev/free-port.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { runnerKeys, useOwnRedis } from "../../fixtures/redis.ts";
import { signedHeaders, useRunners } from "../../fixtures/runners.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { gatedLong, hasLogged, longJob, stateOf } from "./gated-jobs.ts";

const redis = useOwnRedis();
const ends = useEnds();
const runners = useRunners({ redis, fresh: "test" });

/**
 * A runner checks for due work at least once in a third of its lease. With this lease that is too rare to help any test here,
 * so work that runs was found in another way.
 */
const LEASE_MS = 600_000;
const PAUSE_MS = 1000;

/** With this configuration, a retry of failed work waits for exactly `PAUSE_MS`. */
const options = {
  lease_ms: LEASE_MS,
  long_backoff: { base_ms: PAUSE_MS, cap_ms: PAUSE_MS },
  random: () => 1,
};

/** A long job that fails in its first run and succeeds in the next one. */
function failingOnce() {
  let runs = 0;
  return longJob(async () => {
    runs += 1;
    if (runs === 1) throw new Error("no luck");
  });
}

/** Resolves once the due time of the member, which was a lease ahead while a run held it, is only a pause ahead. */
const untilPostponed = (key: string, id: string) =>
  eventually("it is postponed", async () => {
    const dueAt = Number(await redis.client.zscore(key, id));
    return dueAt > 0 && dueAt < Date.now() + LEASE_MS / 2;
  });

test("a long call whose pause is not quite over at a check runs as soon as it is over", async () => {
  const runner = await runners.start({ ...options, jobs: failingOnce() });
  await runner.offer("k");
  await eventually("it has failed", () => hasLogged(runner, "job.failed"));
  await untilPostponed(runnerKeys.due, "k");
  await redis.client.zincrby(runnerKeys.due, 300, "k");
  await eventually("it is done", async () => (await stateOf(runner, "k")) === "done");
});

test("a result whose pause is not quite over at a check is delivered as soon as it is over", async () => {
  const jobs = longJob(async () => {});
  const deliver_to = [`http://127.0.0.1:${await freePort()}`];
  const secret = new Secret("s".repeat(32));
  const runner = await runners.start({ ...options, jobs, secrets: [secret], deliver_to });
  const callId = randomCallId();
  await runner.offer(callId, { headers: signedHeaders(secret, callId) });
  await eventually("it was not delivered", () => hasLogged(runner, "result.delivery_failed"));
  await untilPostponed(runnerKeys.deliveries, callId);
  await redis.client.zincrby(runnerKeys.deliveries, 300, callId);
  await eventually("it is tried again", () => {
    const failed = runner.log.events.filter(({ event }) => event === "result.delivery_failed");
    return failed.length === 2;
  });
});

test("a long call whose runner died runs again when its lease ends, even if the other runner checks rarely", async () => {
  const { at, jobs } = gatedLong();
  const dying = await runners.start({ jobs, lease_ms: 2000 });
  await dying.offer("k");
  await eventually("it runs", () => at.runs === 1);
  dying.drop();
  await runners.start({ jobs, lease_ms: LEASE_MS });
  await eventually("it runs again", () => at.runs === 2);
  at.open();
});

test("a check follows a failed check", async () => {
  let checks = 0;
  await new Promise<void>((resolve) => {
    startWork(async () => {
      checks += 1;
      if (checks === 1) throw new Error("no luck");
      resolve();
      return { ids: [], nextInMs: undefined };
    });
  });
});

test("work that becomes due every millisecond causes at most 50 checks a second", async () => {
  const startedAt = performance.now();
  let checks = 0;
  await new Promise<void>((resolve) => {
    startWork(async () => {
      checks += 1;
      if (checks === 11) resolve();
      return { ids: [], nextInMs: 1 };
    });
  });
  expect(performance.now() - startedAt).toBeGreaterThan(180);
});

test("a runner without free slots does not check for due work before something ends", async () => {
  let checks = 0;
  let end = () => {};
  const work = () => new Promise<void>((resolve) => (end = resolve));
  await new Promise<void>((resolve) => {
    const due = async () => {
      checks += 1;
      resolve();
      return { ids: ["a", "b"], nextInMs: 1 };
    };
    startWork(due, { everyMs: 600_000, claim: async () => "a", work }).wake();
  });
  ends.defer(() => end());
  await new Promise<void>((resolve) => {
    let checksOfAnother = 0;
    startWork(async () => {
      checksOfAnother += 1;
      if (checksOfAnother === 11) resolve();
      return { ids: [], nextInMs: 1 };
    });
  });
  expect(checks).toBe(1);
});

type WorkOptions = Partial<ConstructorParameters<typeof DueWork<string>>[0]>;

/** Starts the work loop with a store whose answers the test decides. Only the loop's timer causes checks. */
function startWork(due: () => Promise<Due>, options?: WorkOptions): DueWork<string> {
  const work = new DueWork<string>({
    ...{ everyMs: 100, concurrency: 1, due, onCheckFailed() {} },
    ...{ claim: () => Promise.resolve(undefined), work: () => Promise.resolve() },
    ...options,
  });
  ends.defer(() => work.stop());
  return work;
}

onlyInLongRun(() => {
  test("a long call that became due while Redis was away runs when Redis is back", async () => {
    const long_backoff = { base_ms: 3000, cap_ms: 3000 };
    const runner = await runners.start({ ...options, long_backoff, jobs: failingOnce() });
    await runner.offer("k");
    await eventually("it has failed", () => hasLogged(runner, "job.failed"));
    await untilPostponed(runnerKeys.due, "k");
    await redis.server.kill("SIGKILL");
    await eventually("Redis was missed", () => hasLogged(runner, "job.poll_failed"));
    await redis.server.restart();
    await eventually("it is done", async () => (await stateOf(runner, "k")) === "done");
  });
});
