import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { echo } from "../../../../services/runner/jobs.ts";
import { createRouter, json } from "../../../../services/runner/runner.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { runnerKeys, useOwnRedis } from "../../../fixtures/redis.ts";
import { type TestRunner, useRunners } from "../../../fixtures/runners.ts";
import { send } from "../../../support/http.ts";

describe("200", () => {
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

  test("the list of calls has the newest first, can be filtered, and its pages together have all calls", async () => {
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

  test("the list of calls never shows a handler's error message", async () => {
    await runner.offer("bad", { job: 2, body: "{" });
    const failed = await runner.get("/calls?state=failed");
    expect(failed.json()).toMatchObject({ calls: [{ id: "bad", code: "runner.input_rejected" }] });
    expect(failed.text).not.toContain("reason");
  });

  test("the list reads at most 1000 calls for one answer, and the next page continues there even if none matched", async () => {
    const { client } = runners.redis;
    const ids = Array.from({ length: 2500 }, (_, i) => `call-${i}`);
    const later = Date.now() + 3_600_000;
    await Promise.all(ids.map((id, i) => client.zadd(runnerKeys.calls, later + i, id)));
    await Promise.all(
      ids.map((id) => client.hset(runnerKeys.call(id), { st: "DONE", job: 1, at: 1, len: 0 })),
    );
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
});

describe("400", () => {
  const runners = useRunners();
  let runner: TestRunner;
  beforeAll(async () => {
    runner = await runners.start({ jobs: createRouter() });
  });

  test.each(["?state=finished", "?limit=many", "?job_id=-1"])(
    "the list of calls is refused with 400 for the query %s",
    async (query) => {
      const refused = await runner.get(`/calls${query}`);
      expect([refused.status, refused.json()["code"]]).toEqual([400, "request.malformed"]);
    },
  );

  test("a page after a call that is no longer remembered is refused with 400, instead of starting from the beginning", async () => {
    expect((await runner.get("/calls?after=forgotten")).status).toBe(400);
  });
});

describe("405", () => {
  const runners = useRunners();

  test("a POST is refused with 405 at the list of calls, and the answer names GET and HEAD", async () => {
    const { address } = await runners.start({ jobs: createRouter() });
    const answer = await send(address, { path: "/calls" });
    expect([answer.status, answer.headers["allow"]]).toEqual([405, "GET, HEAD"]);
  });
});

describe("503", () => {
  const redis = useOwnRedis();
  const runners = useRunners({ redis });

  test("the list of calls is answered with 503 and Retry-After while Redis is away", async () => {
    const { get } = await runners.start({ jobs: createRouter() });
    await redis.server.kill("SIGKILL");
    await eventually("Redis is missed", async () => (await get("/readyz")).status === 503);
    const refused = await get("/calls");
    expect([refused.status, refused.json()["code"]]).toEqual([503, "runner.store_unavailable"]);
    expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
  });
});
