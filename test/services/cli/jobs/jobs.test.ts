import { beforeEach, expect, test } from "vitest";
import { createEnqueue } from "../../../../services/webhooks-gateway/enqueue.ts";
import { openJobs } from "../../../../shared/queue/jobs.ts";
import { jsonLines, usePostern } from "../../../fixtures/postern.ts";
import { aCall } from "../../../fixtures/producer.ts";
import { asUser, keys, useRedis } from "../../../fixtures/redis.ts";
import { addCallbacks } from "../../../support/callback-queues.ts";
import { limitJobs } from "../../../support/limit-jobs.ts";
import { runHere, runHereWith } from "../run-here.ts";

const redis = useRedis();
const postern = usePostern(() => ({ postern: { redis: { url: asUser(redis.url, "operator") } } }));
const here = (...args: string[]) => runHere(["jobs", ...args, "--config-dir", postern.configDir]);
const jobs = () => openJobs(redis.partitions);

beforeEach(async () => {
  await redis.client.flushdb();
});

test("postern jobs list shows each job's counts over all origins, its limits and its pause", async () => {
  const add = createEnqueue(redis.partition);
  for (const origin of ["webhook", "x402"] as const) await add(aCall({ origin, job_id: 10 }));
  await add(aCall({ job_id: 9 }));
  await limitJobs(
    redis.partitions,
    new Map([["7/9", { concurrency: 5, rate: { max: 100, periodMs: 2000 } }]]),
  );
  await jobs().throttle("7/10", 60_000);
  await jobs().pause("3/1", { at: 0, by: "a@b", reason: "it\nloops" });
  const lines = (await here("list")).stdout.split("\n");
  expect(lines).toEqual([
    expect.stringMatching(/^JOB +WAITING +DELAYED +HELD +IN FLIGHT +FAILED +OLDEST +LIMITS +STATE$/),
    expect.stringMatching(
      /^3\/1 +0 +0 +0 +0 +0 +- +- +paused since 1970-01-01T00:00:00Z \(\d+d\d+h ago\) by a@b: it loops$/,
    ),
    expect.stringMatching(/^7\/9 +1 +0 +0 +0 +0 +\d+s +5 at once, 100 per 2000 ms +running$/),
    expect.stringMatching(
      /^7\/10 +2 +0 +0 +0 +0 +\d+s +- +throttled until \S+Z \(in \d+s\) at its runner's request$/,
    ),
    "3 jobs, 1 paused",
    "",
  ]);
});

test("postern jobs list -o json prints one object per line on stdout, and nothing else there", async () => {
  await jobs().pause("7/1", { at: 0, by: "a@b", reason: "it loops" });
  const ran = await runHereWith(postern)(["jobs", "list", "-o", "json"]);
  expect(jsonLines(ran)).toEqual([
    {
      ...{
        job: "7/1",
        state: "paused",
        waiting: 0,
        delayed: 0,
        held: 0,
        active: 0,
        failed: 0,
        oldest_age_ms: null,
      },
      ...{ origins: [], concurrency: null, rate: null },
      paused: { at: "1970-01-01T00:00:00.000Z", by: "a@b", reason: "it loops" },
    },
  ]);
  expect(ran).toMatchObject({ code: 0, stderr: "1 job, 1 paused\n" });
});

test("postern jobs pause and resume change each named job, and write audit lines", async () => {
  await createEnqueue(redis.partition)(aCall());
  expect(await here("pause", "7/1", "7/2", "--reason", "it loops")).toMatchObject({
    code: 0,
    stdout: "7/1 is paused\n7/2 is paused; it has no queue yet, and new calls will wait\n",
  });
  expect([...(await jobs().gates())].map(([job, { reason }]) => [job, reason])).toEqual(
    expect.arrayContaining([
      ["7/1", "it loops"],
      ["7/2", "it loops"],
    ]),
  );
  expect(await here("resume", "7/1", "7/2")).toMatchObject({
    code: 0,
    stdout: "7/1 is resumed\n7/2 is resumed\n",
  });
  expect((await jobs().gates()).get("7/1")?.pausedAt).toBeUndefined();
  const entries = await redis.client.xrange(keys.audit("acts"), "-", "+");
  const by = ["by", expect.stringContaining("@"), "selection", "by name"];
  const fields = (action: string, job: string, ...rest: string[]) =>
    expect.arrayContaining(["action", action, "job", job, ...by, ...rest]);
  expect(entries.map(([, flat]) => flat)).toEqual([
    fields("pause", "7/1", "reason", "it loops"),
    fields("pause", "7/2", "reason", "it loops"),
    fields("resume", "7/1"),
    fields("resume", "7/2"),
  ]);
});

test("postern jobs pause and resume find a receiver in any spelling of its host, and say which ports it means", async () => {
  await addCallbacks(redis.partition, ["hooks.example.com"]);
  expect(
    await here("pause", "callback/HOOKS.Example.com.", "callback/localhost:021190", "--reason", "x"),
  ).toMatchObject({
    code: 0,
    stdout:
      "callback/hooks.example.com (ports 443 and 80) is paused\n" +
      "callback/localhost/21190 is paused; it has no queue yet, and new calls will wait\n",
  });
  expect([...(await jobs().gates()).keys()].sort()).toEqual([
    "callback/hooks.example.com",
    "callback/localhost/21190",
  ]);
  expect(await here("resume", "callback/hooks.example.com/443", "callback/[::1]")).toMatchObject({
    code: 1,
    stdout: "callback/hooks.example.com (ports 443 and 80) is resumed\n",
    stderr: "callback/[--1] (ports 443 and 80) is not paused, and has no queue\n",
  });
});

test.each([
  "callback/loc%61lhost",
  "callback/a\nb",
  "callback/..",
  "callback/a/0x1",
  "callback/",
  "CALLBACK/a",
  "07/1",
])("postern jobs pause refuses %j, because it names nothing", async (name) => {
  expect(await here("pause", name, "--reason", "x")).toMatchObject({ code: 2, stdout: "" });
  expect((await jobs().gates()).size).toBe(0);
});

test("if a job is already paused, or not paused, the command says so with exit code 1, and changes the others", async () => {
  await jobs().pause("7/1", { at: 0, by: "a@b", reason: "it loops" });
  expect(await here("pause", "7/1", "7/2", "--reason", "x")).toMatchObject({
    code: 1,
    stdout: expect.stringMatching(/^7\/2 is paused/),
    stderr: expect.stringMatching(
      /^7\/1 is already paused since 1970-01-01T00:00:00Z \(\d+d\d+h ago\) by a@b: it loops\n/,
    ),
  });
  expect(await here("resume", "7/3", "7/2")).toMatchObject({
    code: 1,
    stdout: "7/2 is resumed\n",
    stderr: "7/3 is not paused, and has no queue\n",
  });
});
