import { afterEach, beforeEach, expect, test } from "vitest";
import { z } from "zod";
import { createCallStore } from "../../services/runner/call-store.ts";
import { createLongStore, storedAnswer } from "../../services/runner/long-store.ts";
import { type Call, createRouter, json } from "../../services/runner/runner.ts";
import { sha256Hex } from "../../shared/crypto/compare.ts";
import { Secret } from "../../shared/crypto/secret.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { silentLogger } from "../../shared/log/logger.ts";
import { connectForRequests } from "../../shared/redis/connect.ts";
import { DurableRedis } from "../../shared/redis/durable.ts";
import { runnerKeys } from "../../shared/redis/keys.ts";
import { gate, onRedis, type Rig, startRig, type TestRunner } from "./runners.ts";

let rig: Rig;
beforeEach(async () => {
  rig = await startRig();
});
afterEach(() => rig.stop());

const BODY = Buffer.from([0, 255, 10, 13, 0xc3, 0x28]);

function long(handler: (call: Call<undefined, Readonly<Record<string, string>>>) => Promise<void>) {
  return createRouter().job(1, { name: "long", long: true, handler });
}

/** A long job that runs until the gate opens or the runner stops. */
function gated() {
  const at = gate();
  const jobs = long(async ({ signal }) => {
    at.runs += 1;
    const stopped = new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    await Promise.race([at.opened, stopped]);
  });
  return { at, jobs };
}

function stateOf({ get }: TestRunner, id: string): Promise<unknown> {
  return get(`/calls/${id}`).then((answer) => answer.json()["state"]);
}

test("a long call is answered with 202 before it has run, and runs with the same bytes and metadata", async () => {
  const seen: unknown[] = [];
  const jobs = long(async ({ callId, body, contentType, metadata, serviceId, traceparent }) => {
    seen.push({ callId, body, contentType, metadata, serviceId, traceparent });
  });
  const runner = await rig.start({ jobs });
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

test("a repeat gets the same 202 while the call waits, while it runs and after it is done", async () => {
  const { at, jobs } = gated();
  const runner = await rig.start({ jobs });
  const first = await runner.offer("k");
  await eventually("it runs", () => at.runs === 1);
  const during = await runner.offer("k");
  at.open();
  await eventually("it is done", async () => (await stateOf(runner, "k")) === "done");
  const after = await runner.offer("k");
  for (const repeat of [during, after]) {
    expect([repeat.status, repeat.text, repeat.headers["idempotent-replayed"]]).toEqual([
      202,
      first.text,
      "true",
    ]);
  }
  expect(at.runs).toBe(1);
});

test("a call whose runner died is resumed by another once the lease has lapsed, by exactly one of several", async () => {
  const { at, jobs } = gated();
  const leaseMs = 300;
  const dying = await rig.start({ jobs, leaseMs });
  expect((await dying.offer("k", { body: BODY })).status).toBe(202);
  await eventually("it runs", () => at.runs === 1);
  dying.drop();
  const others = await Promise.all([1, 2, 3].map(() => rig.start({ jobs, leaseMs })));
  await eventually("it runs again", () => at.runs === 2);
  at.open();
  await eventually("it is done", async () => (await stateOf(others[0] as TestRunner, "k")) === "done");
  expect(at.runs).toBe(2);
  const resumed = others.flatMap(({ log }) => log.events.filter(({ event }) => event === "job.resumed"));
  expect(resumed.map(({ fields }) => fields)).toMatchObject([{ callId: "k", run: 2, attemptsFailed: 0 }]);
});

test("of two runners that saw the same call due, one takes it", async () => {
  const redis = connectForRequests(new Secret(rig.redis.url), silentLogger);
  const durable = new DurableRedis({ redis, mode: "strict", log: silentLogger });
  try {
    await durable.firstCheck;
    const options = { durable, leaseMs: 60_000, memoryMs: 60_000 };
    const [one, other] = [
      createLongStore({ ...options, owner: "one" }),
      createLongStore({ ...options, owner: "other" }),
    ];
    const request = {
      callId: "k",
      jobId: 1,
      body: BODY,
      contentType: undefined,
      metadata: {},
      traceparent: undefined,
    };
    const subject = { callId: "k", jobId: 1, bytes: BODY.length, sha256: sha256Hex(BODY) };
    expect(await createCallStore({ ...options, owner: "one" }).begin(subject)).toEqual({ kind: "new" });
    expect(await one.store(request, storedAnswer("k"))).toBe(true);
    expect([await one.due(10), await other.due(10)]).toEqual([["k"], ["k"]]);
    expect(await one.claim("k")).toMatchObject({ request, sha256: subject.sha256, runs: 1 });
    expect(await other.claim("k")).toBeUndefined();
    expect(await other.due(10)).toEqual([]);
  } finally {
    durable.stop();
    redis.disconnect();
  }
});

test("a call that was stored when Redis crashed runs when it is back", async () => {
  const { at, jobs } = gated();
  const runner = await rig.start({ jobs, leaseMs: 300 });
  await runner.offer("k");
  runner.drop();
  await rig.redis.kill("SIGKILL");
  await rig.redis.restart();
  at.open();
  const other = await rig.start({ jobs, leaseMs: 300 });
  await eventually("it is done", async () => (await stateOf(other, "k")) === "done");
});

test("a live runner keeps its long call for many leases", async () => {
  const { at, jobs } = gated();
  const leaseMs = 300;
  const [here, there] = [await rig.start({ jobs, leaseMs }), await rig.start({ jobs, leaseMs })];
  await here.offer("k");
  const since = Date.now();
  await eventually("three leases have passed", () => at.runs > 0 && Date.now() - since > 3 * leaseMs);
  at.open();
  await eventually("it is done", async () => (await stateOf(there, "k")) === "done");
  expect(at.runs).toBe(1);
});

test("a stopping runner aborts its long calls and gives them back; the next start resumes them at once", async () => {
  const { at, jobs } = gated();
  const stopping = await rig.start({ jobs });
  await stopping.offer("k");
  await eventually("it runs", () => at.runs === 1);
  await stopping.runner.close(5000);
  expect(stopping.log.events.map(({ event }) => event)).toContain("job.interrupted");
  at.open();
  const next = await rig.start({ jobs });
  await eventually("it is done", async () => (await stateOf(next, "k")) === "done");
  expect(at.runs).toBe(2);
});

test("a failing call is tried again by the runner, then FAILED and kept; offered again it starts anew", async () => {
  let runs = 0;
  const healthy = { now: false };
  const jobs = long(async () => {
    runs += 1;
    if (!healthy.now) throw new Error(`no luck ${runs}`);
  });
  const options = {
    jobs,
    longAttempts: 3,
    longBackoff: { baseMs: 10, capMs: 20 },
    memoryMs: 1,
    leaseMs: 150,
  };
  const runner = await rig.start(options);
  await runner.offer("k");
  await eventually("it has failed", async () => (await stateOf(runner, "k")) === "failed");
  expect(runs).toBe(3);
  const failures = runner.log.events
    .filter(({ event }) => event === "job.failed")
    .map(({ fields }) => fields);
  expect(failures).toMatchObject([
    { attempt: 1, final: false, reason: "no luck 1" },
    { attempt: 2, final: false, reason: "no luck 2" },
    { attempt: 3, final: true, reason: "no luck 3" },
  ]);
  const since = Date.now();
  await eventually("its memory and its lease are over", () => Date.now() - since > 500);
  await runner.offer("another key");
  const listed = (await runner.get("/calls?state=failed")).json<{
    calls: { id: string; code: string }[];
  }>();
  expect(listed.calls).toMatchObject([{ id: "k", code: "runner.handler_failed", attempts_failed: 3 }]);
  healthy.now = true;
  const again = await runner.offer("k");
  expect([again.status, again.headers["idempotent-replayed"]]).toEqual([202, undefined]);
  await eventually("its end", () =>
    runner.log.events.some(({ event, fields }) => event === "job.finished" && fields["callId"] === "k"),
  );
});

test("Redis restarted between a long handler's end and the store: the handler does not run again", async () => {
  const { at, jobs } = gated();
  const runner = await rig.start({ jobs, leaseMs: 300 });
  await runner.offer("k");
  await eventually("it runs", () => at.runs === 1);
  await rig.redis.kill("SIGKILL");
  at.open();
  await eventually("its end cannot be stored", () =>
    runner.log.events.some(({ event }) => event === "job.store_delayed"),
  );
  await rig.redis.restart();
  await eventually("it is done", async () => (await stateOf(runner, "k")) === "done");
  expect(at.runs).toBe(1);
});

test("long calls beyond the limit are stored and wait, and do not take the places of short ones", async () => {
  const { at, jobs } = gated();
  jobs.job(2, { name: "short", handler: () => ({ body: "short" }) });
  const runner = await rig.start({ jobs, concurrency: 1 });
  expect((await runner.offer("k1")).status).toBe(202);
  expect((await runner.offer("k2")).status).toBe(202);
  await eventually("the first runs", () => at.runs === 1);
  expect((await runner.offer("k3", { job: 2 })).text).toBe("short");
  expect(await stateOf(runner, "k2")).toBe("stored");
  at.open();
  await eventually("both are done", async () => (await stateOf(runner, "k2")) === "done");
  expect(at.runs).toBe(2);
});

test("a long call whose input the job refuses is 422 and is not stored", async () => {
  const jobs = createRouter().job(1, {
    name: "long",
    long: true,
    input: json(z.strictObject({ steps: z.int() })),
    handler: async () => {},
  });
  const runner = await rig.start({ jobs });
  const refused = await runner.offer("k", { body: '{"steps":"many"}' });
  expect([refused.status, refused.json()["code"]]).toEqual([422, "runner.input_rejected"]);
  expect(refused.json()["detail"]).toContain("steps");
  expect(await stateOf(runner, "k")).toBe("failed");
  expect((await runner.offer("k2", { body: '{"steps":2}' })).status).toBe(202);
});

test("a run that another runner took over is no failure of the call", async () => {
  const { at, jobs } = gated();
  const runner = await rig.start({ jobs, longAttempts: 1, leaseMs: 300 });
  await runner.offer("k");
  await eventually("it runs", () => at.runs === 1);
  await onRedis(rig, (redis) =>
    redis.hset(runnerKeys.call("k"), { owner: "another", lease: Date.now() + 60_000 }),
  );
  const ended = () => runner.log.events.filter(({ event }) => /^job\.(failed|interrupted)$/.test(event));
  await eventually("the run has ended", () => ended().length > 0);
  expect(ended().map(({ event }) => event)).toEqual(["job.interrupted"]);
  expect(await stateOf(runner, "k")).toBe("running");
});

test("without settings a long call outlasts 19 failures", async () => {
  const jobs = long(() => Promise.reject(new Error("the dependency is down")));
  // With nothing but the shortest pauses, only the number of attempts ends it.
  const runner = await rig.start({ jobs, random: () => 0 });
  await runner.offer("k");
  await eventually("it has failed", async () => (await stateOf(runner, "k")) === "failed");
  const attempts = runner.log.events.filter(({ event }) => event === "job.failed");
  expect(attempts).toHaveLength(20);
});
