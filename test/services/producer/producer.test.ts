import { afterEach, expect, test, vi } from "vitest";
import { createReadLife } from "../../../shared/call-search/life.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { createFailedCalls } from "../../../shared/queue/failed.ts";
import { openJobs } from "../../../shared/queue/jobs.ts";
import { createReplay } from "../../../shared/queue/replay.ts";
import { type FakeAnswer, useFakeRunner } from "../../fixtures/fake-runner.ts";
import { aCall, useProducer } from "../../fixtures/producer.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import { useRedisProxy } from "../../fixtures/redis-proxy.ts";

afterEach(() => {
  vi.useRealTimers();
});
const redis = useRedis();
const proxy = useRedisProxy(redis);
const runner = useFakeRunner();
const producers = useProducer({ redis });
const start = () => producers.start({ runnerUrl: runner.url });

test("a call answered with 429 does not slow other calls, but several of its job in a row pause the job", async () => {
  runner.answer = (offer) =>
    offer.path === "/jobs/429" ? { status: 429, headers: { "Retry-After": "1" } } : { status: 200 };
  const { saw, count, log } = start();
  await producers.add(aCall({ job_id: 429 }));
  for (let i = 0; i < 20; i++) await producers.add(aCall());
  await saw("call.injected", 20);
  expect(count("job.throttled")).toBe(0);
  for (let i = 0; i < 3; i++) await producers.add(aCall({ job_id: 429 }));
  await saw("job.throttled");
  expect(log.events.find(({ event }) => event === "job.throttled")?.fields).toEqual({
    job: "7/429",
    pauseMs: 1000,
  });
});

test("a stopping producer takes no new call and lets the call in flight end", async () => {
  let answer: (answer: FakeAnswer) => void = () => {};
  runner.answer = () =>
    new Promise((resolve) => {
      answer = resolve;
    });
  const { producer, count } = start();
  await producers.add(aCall());
  await eventually("it is offered", () => runner.offers.length === 1);
  const closed = producer.close(3000);
  await producers.add(aCall());
  answer({ status: 200 });
  await closed;
  expect(count("call.injected")).toBe(1);
  expect(runner.offers).toHaveLength(1);
  expect(await producers.queues.countIn("wait")).toBe(1);
});

/**
 * How many steps of a producer's batch only take a call, without ending another. Each step has eleven arguments (`workLua`).
 */
function takesIn(words: readonly string[]): number {
  const steps = words.slice(9);
  return /^evalsha$/i.test(words[0] ?? "") && steps.length % 11 === 0
    ? steps.filter((word, i) => i % 11 === 3 && word === "").length
    : 0;
}

test("a producer that stops while takes are in flight begins none of the calls that they bring", async () => {
  let release = (): void => {};
  const until = new Promise<void>((resolve) => {
    release = resolve;
  });
  let several = 0;
  proxy.onCommand = (words) => {
    several ||= takesIn(words) > 1 ? takesIn(words) : 0;
    return several > 0 ? { kind: "late-reply", until } : undefined;
  };
  runner.answer = () => "silence";
  const calls = Array.from({ length: 9 }, () => aCall());
  for (const call of calls) await producers.add(call);
  const { producer } = producers.start({ redisUrl: proxy.url, runnerUrl: runner.url });
  await eventually("several are taken at once", () => several > 1 && runner.offers.length === 1);
  const closed = producer.close(1000);
  release();
  await closed;
  expect(runner.offers).toHaveLength(1);
  await expect.poll(() => producers.queues.countIn("wait", "delayed")).toBe(calls.length);
});

test("a producer that stops without waiting returns the call in flight at once, without using up an attempt", async () => {
  runner.answer = () => "silence";
  const { producer, count } = start();
  const call = aCall();
  await producers.add(call);
  await eventually("it is offered", () => runner.offers.length === 1);
  await producer.close(50);
  expect(count("call.released")).toBe(1);
  await eventually("it waits", async () => (await producers.queues.countIn("wait", "delayed")) === 1);
  expect(await producers.queues.find(call.id)).toMatchObject({ attemptsMade: 0 });
  const { attempts, steps } = (await createReadLife(producers.redis.partitions.of(call.id))(call.id)) ?? {};
  expect([attempts, steps?.at(-1)]).toMatchObject([1, { kind: "attempt lost", n: 1 }]);
});

test("a call's event says how long the call waited for the end of a pause or for its replay, and 0 for any other call", async () => {
  const { partitions } = producers.redis;
  const jobs = openJobs(partitions);
  const { saw, log } = producers.start({ runnerUrl: runner.url, attempts: 1 });
  const heldMsOf = ({ id }: { id: string }) =>
    log.events.find(({ event, fields }) => event === "call.injected" && fields["callId"] === id)?.fields[
      "heldMs"
    ];
  const plain = aCall();
  await producers.add(plain);
  await saw("call.injected");
  expect(heldMsOf(plain)).toBe(0);

  const [job, acceptedAt] = [`${plain.service_id}/${plain.job_id}`, Date.now() - 60_000];
  const why = { at: Date.now(), by: "otto", reason: "x" };
  await jobs.pause(job, why);
  const paused = aCall({ accepted_at: acceptedAt });
  await producers.add(paused);
  await jobs.resume(job, why);
  await saw("call.injected", 2);
  expect(heldMsOf(paused)).toBeGreaterThanOrEqual(60_000);
  expect(heldMsOf(paused)).toBeLessThanOrEqual(Date.now() - acceptedAt);

  const other = aCall({ job_id: plain.job_id + 1, accepted_at: acceptedAt });
  runner.answer = () => ({ status: 400 });
  await producers.add(other);
  await saw("call.failed");
  const partition = partitions.of(other.id);
  const failed = await eventually("it has failed", () => createFailedCalls(partition).find(other.id));
  runner.answer = () => ({ status: 200 });
  const operator = { partition, clock: Date.now, log: silentLogger, by: "otto" };
  await createReplay(operator)(failed, { selection: "by id" });
  await saw("call.injected", 3);
  expect(heldMsOf(other)).toBeGreaterThanOrEqual(60_000);
});

test("the history of a call and each event count the attempts before its replays too", async () => {
  runner.answer = () => ({ status: 500 });
  const history = { history_secs: 3600, history_max: 10, history_bytes_max: 100_000 };
  const { producer, saw, log } = producers.start({ runnerUrl: runner.url, attempts: 2, history });
  const call = aCall();
  const partition = producers.redis.partitions.of(call.id);
  await producers.add(call);
  await saw("call.failed");
  const failed = await eventually("it has failed", () => createFailedCalls(partition).find(call.id));
  runner.answer = () => ({ status: 200 });
  const operator = { partition, clock: Date.now, log: silentLogger, by: "otto" };
  await createReplay(operator)(failed, { selection: "by id" });
  await saw("call.injected");
  const outcomes = log.events.filter(({ event }) => /^call\.(delayed|failed|injected)$/.test(event));
  expect(outcomes.map(({ fields }) => [fields["attempt"], fields["attemptsBefore"]])).toEqual([
    ...[
      [1, 0],
      [2, 1],
    ],
    [1, 2],
  ]);
  await producer.close(3000);
  await redis.client.del(keys.record(call.id), keys.attempts(call.id));
  const { attempts, steps } = (await createReadLife(partition)(call.id)) ?? {};
  expect([attempts, steps?.at(-1)]).toMatchObject([
    3,
    { kind: "injected", n: 3, ms: expect.any(Number), missing: 2 },
  ]);
});

test("a producer stops even if Redis goes away between its last command and the deletion of its heartbeat", async () => {
  const { producer, saw } = producers.start({ redisUrl: proxy.url, runnerUrl: runner.url });
  await producer.firstCheck;
  proxy.onCommand = (words) => (words.some((word) => /^zrem$/i.test(word)) ? { kind: "hang" } : undefined);
  await producer.close(3000);
  await saw("producer.stopped");
});

test("a producer is not alive while Redis does not answer its heartbeat, and then reconnects", async () => {
  const toFake = ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "Date"] as const;
  vi.useFakeTimers({ shouldAdvanceTime: true, toFake: [...toFake] });
  const { producer, saw } = producers.start({ redisUrl: proxy.url, runnerUrl: runner.url });
  await eventually("it is alive", () => producer.readiness().checks["beating"]);
  await eventually(
    "Redis is named as by every process",
    () => producer.readiness().checks["redis"] === "none",
  );
  let silent = true;
  let beats = 0;
  proxy.onCommand = (words) => {
    if (!silent || !words.includes("{postern}:workers")) return undefined;
    beats += 1;
    return { kind: "hang" };
  };
  await vi.advanceTimersByTimeAsync(2000);
  await eventually("a beat is not answered", () => beats === 1);
  await vi.advanceTimersByTimeAsync(6000);
  expect(producer.readiness().checks["beating"]).toBe(false);
  silent = false;
  await eventually("it is alive again", () => producer.readiness().checks["beating"]);
  await producers.add(aCall());
  await saw("call.injected");
});
