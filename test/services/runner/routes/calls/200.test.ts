import { beforeEach, expect, test } from "vitest";
import { z } from "zod";
import { echo } from "../../../../../services/runner/jobs.ts";
import { createRouter, json } from "../../../../../services/runner/runner.ts";
import { runnerKeys } from "../../../../../shared/redis/keys.ts";
import { type TestRunner, useRunners } from "../../../../fixtures/runners.ts";

const jobs = createRouter()
  .job(1, echo)
  .job(2, { name: "add", input: json(z.strictObject({ a: z.int() })), handler: () => ({}) });

type Listed = { calls: { id: string; state: string; job_id: number }[]; next?: string };

const runners = useRunners({ fresh: "test" });
let runner: TestRunner;
beforeEach(async () => {
  runner = await runners.start({ jobs });
});

const list = async (query: string) => (await runner.get(`/calls${query}`)).json<Listed>();

test("the list of calls has the newest first, filtered, and in pages that together are all", async () => {
  for (let i = 1; i <= 5; i++) await runner.offer(`echo-${i}`, { body: `x${i}` });
  await runner.offer("bad-1", { job: 2, body: "{" });
  const ids = ({ calls }: Listed) => calls.map(({ id }) => id);
  expect(ids(await list(""))).toEqual(["bad-1", "echo-5", "echo-4", "echo-3", "echo-2", "echo-1"]);
  expect(ids(await list("?state=failed"))).toEqual(["bad-1"]);
  expect(ids(await list("?job_id=1&limit=2"))).toEqual(["echo-5", "echo-4"]);
  const first = await list("?limit=4");
  const second = await list(`?limit=4&after=${first.next}`);
  expect([...ids(first), ...ids(second)]).toEqual(ids(await list("")));
  expect(second.next).toBeUndefined();
});

test("the list of calls never shows what a handler said of its failure", async () => {
  await runner.offer("bad", { job: 2, body: "{" });
  const failed = await runner.get("/calls?state=failed");
  expect(failed.json()).toMatchObject({ calls: [{ id: "bad", code: "runner.input_rejected" }] });
  expect(failed.text).not.toContain("reason");
});

test("the list looks at no more than 1000 calls for one answer, and goes on from there though none matched", async () => {
  const { client } = runners.redis;
  const ids = Array.from({ length: 2500 }, (_, i) => `call-${i}`);
  const later = Date.now() + 3_600_000;
  await Promise.all(ids.map((id, i) => client.zadd(runnerKeys.calls, later + i, id)));
  await Promise.all(ids.map((id) => client.hset(runnerKeys.call(id), { st: "DONE", job: 1 })));
  await client.hset(runnerKeys.call("call-700"), { st: "FAILED" });
  await client.config("RESETSTAT");
  const first = await list("?state=failed");
  expect(first).toEqual({ calls: [], next: "call-1500" });
  const stats = await client.info("commandstats");
  expect(Number(/cmdstat_hmget:calls=(\d+)/.exec(stats)?.[1])).toBe(1000);
  const second = await list(`?state=failed&after=${first.next}`);
  expect(second).toMatchObject({ calls: [{ id: "call-700" }], next: "call-500" });
  expect(await list(`?state=failed&after=${second.next}`)).toEqual({ calls: [] });
});
