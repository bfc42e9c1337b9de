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
import { gatedLong, hasLogged, longJob, stateOf } from "./gated-jobs.ts";

const redis = useOwnRedis();
const ends = useEnds();
const runners = useRunners({ redis, fresh: "test" });

/** A runner looks at least once in a third of this, which is too late for every test here. */
const LEASE_MS = 600_000;
const PAUSE_MS = 1000;

/** Failed work waits for exactly `PAUSE_MS`. */
const options = {
  lease_ms: LEASE_MS,
  long_backoff: { base_ms: PAUSE_MS, cap_ms: PAUSE_MS },
  random: () => 1,
};

/** A long job that fails in its first run. */
function failingOnce() {
  let runs = 0;
  return longJob(async () => {
    runs += 1;
    if (runs === 1) throw new Error("no luck");
  });
}

/** Resolves once the member, which was claimed for a lease, has been postponed for a pause. */
const untilPostponed = (key: string, id: string) =>
  eventually("it is postponed", async () => {
    const dueAt = Number(await redis.client.zscore(key, id));
    return dueAt > 0 && dueAt < Date.now() + LEASE_MS / 2;
  });

test("a long call whose pause is not quite over when its runner looks runs as soon as it is", async () => {
  const runner = await runners.start({ ...options, jobs: failingOnce() });
  await runner.offer("k");
  await eventually("it has failed", () => hasLogged(runner, "job.failed"));
  await untilPostponed(runnerKeys.due, "k");
  await redis.client.zincrby(runnerKeys.due, 300, "k");
  await eventually("it is done", async () => (await stateOf(runner, "k")) === "done");
});

test("a result whose pause is not quite over when its runner looks is tried again as soon as it is", async () => {
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

test("a long call whose runner died runs again when its lease ends, also where the other runner looks rarely", async () => {
  const { at, jobs } = gatedLong();
  const dying = await runners.start({ jobs, lease_ms: 2000 });
  await dying.offer("k");
  await eventually("it runs", () => at.runs === 1);
  dying.drop();
  await runners.start({ jobs, lease_ms: LEASE_MS });
  await eventually("it runs again", () => at.runs === 2);
  at.open();
});

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

test("a round follows a look that failed", async () => {
  let looks = 0;
  await new Promise<void>((resolve) => {
    startWork(async () => {
      looks += 1;
      if (looks === 1) throw new Error("no luck");
      resolve();
      return { ids: [], nextInMs: undefined };
    });
  });
});

test("what becomes due every millisecond has no runner look more than 50 times a second", async () => {
  const startedAt = performance.now();
  let looks = 0;
  await new Promise<void>((resolve) => {
    startWork(async () => {
      looks += 1;
      if (looks === 11) resolve();
      return { ids: [], nextInMs: 1 };
    });
  });
  expect(performance.now() - startedAt).toBeGreaterThan(180);
});

test("a runner that is full does not look at what becomes due before something ends", async () => {
  let looks = 0;
  let end = () => {};
  const work = () => new Promise<void>((resolve) => (end = resolve));
  await new Promise<void>((resolve) => {
    const due = async () => {
      looks += 1;
      resolve();
      return { ids: ["a", "b"], nextInMs: 1 };
    };
    startWork(due, { everyMs: 600_000, claim: async () => "a", work }).wake();
  });
  ends.defer(() => end());
  await new Promise<void>((resolve) => {
    let looksOfAnother = 0;
    startWork(async () => {
      looksOfAnother += 1;
      if (looksOfAnother === 11) resolve();
      return { ids: [], nextInMs: 1 };
    });
  });
  expect(looks).toBe(1);
});

type WorkOptions = Partial<ConstructorParameters<typeof DueWork<string>>[0]>;

/** Looks by a timer only, into a store that misbehaves on command. */
function startWork(due: () => Promise<Due>, options?: WorkOptions): DueWork<string> {
  const work = new DueWork<string>({
    ...{ everyMs: 100, concurrency: 1, due, onLookFailed() {} },
    ...{ claim: () => Promise.resolve(undefined), work: () => Promise.resolve() },
    ...options,
  });
  ends.defer(() => work.stop());
  return work;
}
