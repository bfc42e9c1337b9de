import { expect, test } from "vitest";
import type { JobPage } from "../../../shared/console/jobs.ts";
import { useOperator } from "../../fixtures/console.ts";
import { addCallbacks, manyReceivers } from "../../support/callback-queues.ts";
import { limitJob } from "../../support/limit-jobs.ts";

const fixture = useOperator();

const RECEIVERS = manyReceivers(5000);

test("thousands of receivers are listed page by page, each page with a limited CPU time", async () => {
  const { get } = await fixture.start();
  const { partition } = fixture.redis;
  await addCallbacks(partition, RECEIVERS);
  await limitJob(fixture.redis.partitions, "callback", { concurrency: 10 });

  const listed: JobPage["jobs"] = [];
  for (let path = "/api/v1/jobs?limit=500"; path !== ""; ) {
    const before = process.cpuUsage();
    const answer = await get(path);
    expect(answer.status).toBe(200);
    // A search of all queues for each receiver takes three times as long. The console runs in this process.
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1000).toBeLessThan(2500);
    const { jobs, next } = answer.json() as JobPage;
    expect(jobs.length).toBeLessThanOrEqual(500);
    listed.push(...jobs);
    path = next === null ? "" : `/api/v1/jobs?limit=500&cursor=${next}`;
  }
  expect(listed.map(({ job, waiting }) => [job, waiting])).toEqual([
    ["callback", RECEIVERS.length],
    ...RECEIVERS.map((receiver) => [`callback/${receiver}`, 1]),
  ]);
  const one = await get(`/api/v1/jobs/callback/${RECEIVERS[4000]}`);
  expect(one.json()).toEqual({ ...listed[4001], oldest_age_ms: expect.any(Number) });
}, 60_000);

test("no script reads thousands of queues at once, which would block other clients of Redis", async () => {
  const { get } = await fixture.start();
  const { client, partition } = fixture.redis;
  await addCallbacks(partition, RECEIVERS.slice(0, 2000));
  await limitJob(fixture.redis.partitions, "callback", { concurrency: 10 });
  await client.config("SET", "slowlog-log-slower-than", 0, "slowlog-max-len", 50_000);
  await client.call("SLOWLOG", "RESET");
  expect((await get("/api/v1/jobs")).status).toBe(200);

  // The slow log has the newest entries first, and lists the commands of a script before the script.
  const log = (await client.call("SLOWLOG", "GET", "50000")) as [number, number, number, string[]][];
  const names = log.map(([, , , [name]]) => String(name).toUpperCase());
  const scripts = names.flatMap((name, at) => (/^EVAL(SHA)?$/.test(name) ? [at] : []));
  const lengths = scripts.map((at, i) => (scripts[i + 1] ?? names.length) - at);
  expect(names.filter((name) => name === "LLEN").length).toBeGreaterThan(2000);
  expect(Math.max(...lengths)).toBeLessThan(3000);
}, 60_000);
