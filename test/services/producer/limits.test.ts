import { expect, test } from "vitest";
import type { Inject } from "../../../services/producer/producer.ts";
import type { Origin } from "../../../shared/call/origin.ts";
import type { PosternToml } from "../../../shared/config/postern-toml.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { openJobs } from "../../../shared/queue/jobs.ts";
import type { JobLimits } from "../../../shared/queue/limits.ts";
import { useFakeRunner } from "../../fixtures/fake-runner.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { aCall, useProducer } from "../../fixtures/producer.ts";
import { asUser, useRedis } from "../../fixtures/redis.ts";
import { limitJobs } from "../../support/limit-jobs.ts";
import { onlyInLongRun } from "../../support/long-run.ts";

const redis = useRedis();
const producers = useProducer({ redis });

const ORIGINS: Origin[] = ["webhook", "x402"];
const limits = (job: JobLimits) => new Map([["7/1", job]]);
const gates = () => openJobs(redis.partitions).gates();

/**
 * Starts two producers with the same configuration. Returns a function that counts the calls that both together have
 * injected.
 */
function startTwo(job: PosternToml["jobs"][string], inject: Inject) {
  const jobs = { "7/1": job };
  const two = [1, 2].map(() => producers.start({ inject, jobs, setsLimits: true, origins: ORIGINS }));
  return () => two.reduce((sum, { count }) => sum + count("call.injected"), 0);
}

test("a job's concurrency applies to two producers and all origins of its calls together", async () => {
  const waiting: (() => void)[] = [];
  let running = 0;
  let most = 0;
  const injected = startTwo({ concurrency: 2 }, async () => {
    running += 1;
    most = Math.max(most, running);
    await new Promise<void>((resolve) => waiting.push(resolve));
    running -= 1;
  });
  for (let i = 0; i < 8; i++) await producers.add(aCall({ origin: i % 2 === 0 ? "webhook" : "x402" }));
  for (let ended = 0; ended < 8; ended++) {
    await eventually("as many run as may", () => running === Math.min(2, 8 - ended));
    waiting[ended]?.();
    await eventually("it is injected", () => injected() === ended + 1);
  }
  expect(most).toBe(2);
});

test("a job's rate applies to two producers together, and a producer that starts without it releases the rest at once", async () => {
  const places = redis.partitions.all.map(({ keys }) => keys);
  const injected = startTwo({ rate: { perSecond: 3 / 600, burst: 3 } }, async () => {});
  for (let i = 0; i < 8; i++) await producers.add(aCall());
  await eventually("the job waits for its next period", async () => {
    const awake = await Promise.all(places.map(({ wake }) => redis.client.zcard(wake)));
    const dueAt = await Promise.all(places.map(({ due }) => redis.client.zscore(due, "webhook/7/1")));
    const known = dueAt.filter((at) => at !== null);
    const isPutOff = known.length > 0 && known.every((at) => Number(at) > Date.now() + 60_000);
    return injected() === 3 && Math.max(...awake) === 0 && isPutOff;
  });
  expect(await producers.queues.countIn("wait")).toBe(5);
  const { count } = producers.start({ inject: async () => {}, setsLimits: true });
  await eventually("the rest is injected", () => injected() + count("call.injected") === 8);
});

test("a producer removes the limits of jobs that it no longer limits, before it takes a call", async () => {
  const jobs = openJobs(redis.partitions);
  await limitJobs(redis.partitions, limits({ concurrency: 1, rate: { max: 1, periodMs: 1000 } }));
  await jobs.pause("7/1", { at: 1, by: "a@b", reason: "a test" });
  const { producer } = producers.start({ inject: async () => {}, setsLimits: true });
  await producer.firstCheck;
  expect((await gates()).get("7/1")).toMatchObject({
    ...{ concurrency: undefined, rate: undefined },
    reason: "a test",
  });
});

test("a producer without limits of its own keeps existing limits", async () => {
  await limitJobs(redis.partitions, limits({ concurrency: 1 }));
  const { producer } = producers.start({ inject: async () => {} });
  await producer.firstCheck;
  expect((await gates()).get("7/1")?.concurrency).toBe(1);
});

onlyInLongRun(() => {
  const usual = useFakeRunner();
  const special = useFakeRunner();
  const postern = usePostern();

  test("postern producer gives a job the runner, timeout, attempts and limits of its table", async () => {
    await limitJobs(redis.partitions, new Map([["7/9", { concurrency: 1 }]]));
    special.answer = () => "silence";
    postern.configure({
      postern: {
        redis: { url: asUser(redis.url, "producer") },
        runner: { url: usual.url },
        runners: { special: { url: special.url } },
        jobs: { "7/5": { runner: "special", timeout_ms: 50, attempts: 1, concurrency: 4 } },
      },
    });
    const call = aCall({ job_id: 5 });
    await producers.add(call);
    await producers.add(aCall());
    postern.start(["producer", "--ops-address", "127.0.0.1:0"]);
    await eventually("one has failed and one is injected", async () => {
      return (await producers.queues.countIn("failed")) === 1 && usual.offers.length === 1;
    });
    expect(special.offers.map(({ path }) => path)).toEqual(["/jobs/5"]);
    expect((await producers.queues.find(call.id))?.failedReason).toMatch(/^runner\.timed_out: /);
    const set = await gates();
    expect(set.get("7/5")?.concurrency).toBe(4);
    expect(set.get("7/9")).toBeUndefined();
  });
});
