import { describe, expect, test } from "vitest";
import { openJobs } from "../../../../shared/queue/jobs.ts";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { useRedis } from "../../../fixtures/redis.ts";
import { addCallbacks } from "../../../support/callback-queues.ts";
import { auditOf } from "../audit-of.ts";

describe("200", () => {
  const redis = useRedis();
  const fixture = useOperator({ redis });

  test.each(["callback", "callback/receiver.example.com", "callback/127.0.0.1/8443"])(
    "the callbacks of %s are paused and resumed as a job is, with an audit line",
    async (job) => {
      await redis.client.flushdb();
      const { post } = await fixture.start();
      const paused = await post(`/api/v1/jobs/${job}/pause`, { reason: "it is away" });
      expect([paused.status, paused.json()]).toMatchObject([
        200,
        { changed: true, job: { job, state: "paused" } },
      ]);
      const resumed = await post(`/api/v1/jobs/${job}/resume`, { reason: "it is back" });
      expect([resumed.status, resumed.json()]).toMatchObject([
        200,
        { changed: true, job: { job, state: "running" } },
      ]);
      expect(await auditOf(redis)).toMatchObject([
        { action: "pause", job, by: "otto", reason: "it is away" },
        { action: "resume", job, by: "otto", reason: "it is back" },
      ]);
    },
  );

  test.each([
    ["LOCALHOST/21190", "callback/localhost/21190", [21190]],
    ["loc%61lhost/21190", "callback/localhost/21190", [21190]],
    ["localhost./21190", "callback/localhost/21190", [21190]],
    ["%5B0:0::1%5D/21190", "callback/[--1]/21190", [21190]],
    ["Hooks.Example.com", "callback/hooks.example.com", [443, 80]],
    ["h%C3%B6oks.example.com/443", "callback/xn--hoks-5qa.example.com", [443, 80]],
  ])(
    "a pause of %s pauses the named receiver, and says which ports that means and whether it has a queue",
    async (name, job, ports) => {
      await redis.client.flushdb();
      const { post, get } = await fixture.start();
      const pause = async () =>
        (await post(`/api/v1/jobs/callback/${name}/pause`, { reason: "it is away" })).json();
      expect(await pause()).toMatchObject({
        changed: true,
        has_queue: false,
        job: { job, ports, state: "paused" },
      });
      await addCallbacks(redis.partition, [job.replace("callback/", "")]);
      expect(await pause()).toMatchObject({ changed: false, has_queue: true, job: { job, waiting: 1 } });
      const shown = await get(`/api/v1/jobs/callback/${name}`);
      expect(shown.json()).toMatchObject({ job, state: "paused", waiting: 1 });
      expect((await openJobs(redis.partitions).gates()).get(job)).toMatchObject({ pausedBy: "otto" });
    },
  );

  test("a change of all callbacks says whether any of them has a queue", async () => {
    await redis.client.flushdb();
    const { post } = await fixture.start();
    const resume = async () => (await post("/api/v1/jobs/callback/resume", { reason: "it is back" })).json();
    expect(await resume()).toMatchObject({ changed: false, has_queue: false });
    await addCallbacks(redis.partition, ["hooks.example.com"]);
    expect(await resume()).toMatchObject({ changed: false, has_queue: true });
  });
});

describe("400", () => {
  const fixture = useOperator();

  test.each([
    "a%0Ab",
    "a%2Fb",
    "a%2fb/80",
    "%2e%2e%2fx",
    "loc%2561lhost",
    "a%00",
    "a%7F",
    "a%C2%85b",
    "a%",
    "%FF",
    "a%0Ab/80",
  ])(
    "a host that decodes to a slash, a percent sign, a control character or no UTF-8 is refused: %s",
    async (host) => {
      const { post, get } = await fixture.start();
      const refused = await post(`/api/v1/jobs/callback/${host}/pause`, { reason: "x" });
      expect(refusalOf(refused)).toEqual([400, "request.malformed"]);
      expect((await get("/api/v1/jobs")).json()).toEqual({ jobs: [], next: null });
    },
  );

  test("a client that may not act is refused before the path is validated", async () => {
    const { post } = await fixture.start();
    const refused = await post("/api/v1/jobs/callback/a%0Ab/pause", { reason: "x" }, { as: "nobody" });
    expect(refused.status).toBe(401);
  });
});

describe("404", () => {
  const fixture = useOperator();

  test.each([
    ...[
      "callback/%2e%2e",
      "callback/a..b",
      "callback/a%20b",
      "callback/a%40b",
      "callback/a%5Cb",
      "callback/a%3Fb",
    ],
    ...[
      "callback/::1",
      "callback/a/0",
      "callback/a/65536",
      "callback/a/x",
      "CALLBACK/a",
      "%63allback/a",
      "07/1",
      "7/01",
    ],
  ])("%s names no job and no receiver, and nothing is paused", async (job) => {
    const { post, get } = await fixture.start();
    const refused = await post(`/api/v1/jobs/${job}/pause`, { reason: "x" });
    expect(refusalOf(refused)).toEqual([404, "request.not_found"]);
    expect((await get("/api/v1/jobs")).json()).toEqual({ jobs: [], next: null });
  });
});
