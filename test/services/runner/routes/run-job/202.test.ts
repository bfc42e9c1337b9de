import { expect, test } from "vitest";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { useRunners } from "../../../../fixtures/runners.ts";
import { gatedLong, longJob, stateOf } from "../../gated-jobs.ts";

const BODY = Buffer.from([0, 255, 10, 13, 0xc3, 0x28]);

const runners = useRunners({ fresh: "test" });

test("a long call is answered with 202 and runs afterwards, with the same bytes and metadata", async () => {
  const seen: unknown[] = [];
  const jobs = longJob(async ({ callId, body, contentType, metadata, serviceId, traceparent }) => {
    seen.push({ callId, body, contentType, metadata, serviceId, traceparent });
  });
  const runner = await runners.start({ jobs });
  const traceparent = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;
  const headers = {
    "Content-Type": "a/b",
    "X-Platform-Service-Id": "12",
    "X-WEBHOOK-PATH": "/a",
    traceparent,
  };
  const stored = await runner.offer("k", { body: BODY, headers });
  expect([stored.status, stored.json()]).toEqual([202, { status: "stored", call_id: "k" }]);
  await eventually("it is done", async () => (await stateOf(runner, "k")) === "done");
  const metadata = { "X-PLATFORM-SERVICE-ID": "12", "X-WEBHOOK-PATH": "/a" };
  expect(seen).toEqual([
    { callId: "k", body: BODY, contentType: "a/b", metadata, serviceId: 12, traceparent },
  ]);
  const events = runner.log.events.map(({ event }) => event);
  expect(events.filter((event) => event.startsWith("job."))).toEqual(["job.stored", "job.finished"]);
});

test("the log names the sender's event when a long call is stored, and when it is done", async () => {
  const runner = await runners.start({ jobs: longJob(async () => {}) });
  await runner.offer("k", { headers: { "X-WEBHOOK-EVENT": "push" } });
  const lines = () => runner.log.events.filter(({ event }) => event.startsWith("job."));
  await eventually("two lines", () => lines().length === 2);
  expect(lines()).toMatchObject([
    { event: "job.stored", fields: { eventType: "push" } },
    { event: "job.finished", fields: { eventType: "push" } },
  ]);
});

test("long calls beyond the limit are stored and wait, and do not take the places of short ones", async () => {
  const { at, jobs } = gatedLong();
  jobs.job(2, { name: "short", handler: () => ({ body: "short" }) });
  const runner = await runners.start({ jobs, concurrency: 1 });
  expect((await runner.offer("k1")).status).toBe(202);
  expect((await runner.offer("k2")).status).toBe(202);
  await eventually("the first runs", () => at.runs === 1);
  expect((await runner.offer("k3", { job: 2 })).text).toBe("short");
  expect(await stateOf(runner, "k2")).toBe("stored");
  at.open();
  await eventually("both are done", async () => (await stateOf(runner, "k2")) === "done");
  expect(at.runs).toBe(2);
});
