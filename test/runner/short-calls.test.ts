import { afterEach, beforeEach, expect, test } from "vitest";
import { createRouter } from "../../services/runner/runner.ts";
import { Secret } from "../../shared/crypto/secret.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { silentLogger } from "../../shared/log/logger.ts";
import { connectForRequests } from "../../shared/redis/connect.ts";
import { gate, type Rig, startRig } from "./runners.ts";

let rig: Rig;
beforeEach(async () => {
  rig = await startRig();
});
afterEach(() => rig.stop());

/** Job 1 counts its runs and answers with the count; job 2 does the same. */
function counting() {
  const seen = { runs: 0 };
  const handler = () => ({ status: 201, contentType: "text/x-count", body: `run ${++seen.runs}` });
  const jobs = createRouter().job(1, { name: "count", handler }).job(2, { name: "count again", handler });
  return { seen, jobs };
}

/** Job 1 runs until the gate opens. */
function gated() {
  const at = gate();
  const jobs = createRouter().job(1, {
    name: "gated",
    async handler() {
      at.runs += 1;
      await at.opened;
      return { body: `run ${at.runs}` };
    },
  });
  return { at, jobs };
}

test("a repeat of a call that succeeded gets the first answer again, and nothing runs", async () => {
  const { seen, jobs } = counting();
  const { offer, log } = await rig.start({ jobs });
  const first = await offer("k", { body: "x" });
  const again = await offer("k", { body: "x" });
  expect([first.status, first.text, first.headers["idempotent-replayed"]]).toEqual([201, "run 1", undefined]);
  expect([again.status, again.text, again.headers["idempotent-replayed"]]).toEqual([201, "run 1", "true"]);
  expect(again.headers["content-type"]).toBe("text/x-count");
  expect(seen.runs).toBe(1);
  const finished = log.events.filter(({ event }) => event === "job.finished").map(({ fields }) => fields);
  expect(finished).toMatchObject([
    { callId: "k", jobId: 1, job: "count", status: 201, replayed: false },
    { callId: "k", jobId: 1, job: "count", status: 201, replayed: true },
  ]);
});

test("the first answer outlives the runner and a crash of Redis", async () => {
  const { seen, jobs } = counting();
  const first = await rig.start({ jobs });
  await first.offer("k");
  first.drop();
  await rig.redis.kill("SIGKILL");
  await rig.redis.restart();
  const second = await rig.start({ jobs });
  expect((await second.offer("k")).text).toBe("run 1");
  expect(seen.runs).toBe(1);
});

test("only 2xx answers are remembered: after a failure the next offer runs the call", async () => {
  const answers = [
    () => Promise.reject(new Error("no luck")),
    () => Promise.resolve({ status: 503, body: "busy myself" }),
    () => Promise.resolve({ status: 404, body: "not mine" }),
    () => Promise.resolve({ body: "done" }),
  ];
  const jobs = createRouter().job(1, {
    name: "moody",
    handler: () => answers.shift()?.() ?? Promise.reject(),
  });
  const { offer, log } = await rig.start({ jobs });
  const thrown = await offer("k");
  expect([thrown.status, thrown.json()["code"]]).toEqual([500, "runner.handler_failed"]);
  expect(thrown.text).not.toContain("no luck");
  expect(await offer("k")).toMatchObject({ status: 503, text: "busy myself" });
  expect(await offer("k")).toMatchObject({ status: 404, text: "not mine" });
  expect(await offer("k")).toMatchObject({ status: 200, text: "done" });
  const failures = log.events.filter(({ event }) => event === "job.failed").map(({ fields }) => fields);
  expect(failures).toMatchObject([{ status: 500, reason: "no luck" }, { status: 503 }, { status: 404 }]);
});

test("an answer that HTTP cannot carry is a failure of the job and is not remembered", async () => {
  const types = ["text/plain; name=中", "text/plain\r\nX-More: 1", "text/plain"];
  const handler = () => ({ contentType: types.shift() ?? "none is left", body: "done" });
  const { offer } = await rig.start({ jobs: createRouter().job(1, { name: "odd", handler }) });
  for (const refused of [await offer("k"), await offer("k")]) {
    expect([refused.status, refused.json()["code"]]).toEqual([500, "runner.handler_failed"]);
  }
  expect(await offer("k")).toMatchObject({ status: 200, text: "done" });
});

test("a repeat of a call that still runs is 409 with Retry-After, at this runner and at another", async () => {
  const { at, jobs } = gated();
  const [here, there] = [await rig.start({ jobs }), await rig.start({ jobs })];
  const first = here.offer("k");
  await eventually("the handler runs", () => at.runs === 1);
  for (const runner of [here, there]) {
    const repeat = await runner.offer("k");
    expect([repeat.status, repeat.headers["retry-after"], repeat.json()["code"]]).toEqual([
      409,
      "1",
      "runner.busy",
    ]);
  }
  at.open();
  expect((await first).text).toBe("run 1");
  expect((await there.offer("k")).headers["idempotent-replayed"]).toBe("true");
  expect(at.runs).toBe(1);
});

test("a live runner renews its lease for as long as the handler runs", async () => {
  const { at, jobs } = gated();
  const leaseMs = 300;
  const [here, there] = [await rig.start({ jobs, leaseMs }), await rig.start({ jobs, leaseMs })];
  const first = here.offer("k");
  const since = Date.now();
  await eventually("three leases have passed", async () => {
    if (at.runs > 0) expect((await there.offer("k")).status).toBe(409);
    return Date.now() - since > 3 * leaseMs;
  });
  at.open();
  expect((await first).status).toBe(200);
  expect(at.runs).toBe(1);
});

test("after the lease of a runner that died has lapsed, the call runs again", async () => {
  const { at, jobs } = gated();
  const dying = await rig.start({ jobs, leaseMs: 400 });
  dying.offer("k").catch(() => {});
  await eventually("the handler runs", () => at.runs === 1);
  dying.drop();
  const other = await rig.start({ jobs, leaseMs: 400 });
  expect((await other.offer("k")).status).toBe(409);
  const interrupted = async () => (await other.get("/calls/k")).json()["state"] === "interrupted";
  await eventually("the lease has lapsed", interrupted);
  at.open();
  expect((await other.offer("k")).text).toBe("run 2");
});

test("the same key for another job or another body is 422, while it runs and after", async () => {
  const { at, jobs } = gated();
  const handler = () => ({});
  const [here, there] = [
    await rig.start({ jobs: jobs.job(2, { name: "other", handler }) }),
    await rig.start({ jobs }),
  ];
  const first = here.offer("k", { body: "x" });
  await eventually("the handler runs", () => at.runs === 1);
  const expectRefused = async () => {
    for (const runner of [here, there]) {
      for (const other of [{ body: "y" }, { job: 2, body: "x" }]) {
        const { status, json } = await runner.offer("k", other);
        expect([status, json()["code"]]).toEqual([422, "runner.key_reused"]);
      }
    }
  };
  await expectRefused();
  at.open();
  await first;
  await expectRefused();
  expect(at.runs).toBe(1);
});

test("Redis restarted between the handler's end and the store: one effect, and the repeat gets its answer", async () => {
  const { at, jobs } = gated();
  const { offer, log } = await rig.start({ jobs, leaseMs: 500 });
  const first = offer("k");
  await eventually("the handler runs", () => at.runs === 1);
  await rig.redis.kill("SIGKILL");
  at.open();
  await eventually("the answer cannot be stored", () =>
    log.events.some(({ event }) => event === "job.store_delayed"),
  );
  expect((await offer("k")).status).toBe(409);
  await rig.redis.restart();
  expect((await first).text).toBe("run 1");
  expect(await offer("k")).toMatchObject({ status: 200, text: "run 1" });
  expect(at.runs).toBe(1);
});

test("a caller that went away while the handler ran gets the answer when it comes again", async () => {
  const { at, jobs } = gated();
  const runner = await rig.start({ jobs });
  const impatient = new AbortController();
  const gone = fetch(`http://${runner.address}/jobs/1`, {
    method: "POST",
    headers: { "Idempotency-Key": "k" },
    signal: impatient.signal,
  }).catch(() => "gone");
  await eventually("the handler runs", () => at.runs === 1);
  impatient.abort();
  expect(await gone).toBe("gone");
  at.open();
  await eventually("the answer is stored", async () => (await runner.offer("k")).status === 200);
  expect(at.runs).toBe(1);
});

test("without Redis nothing is begun: 503 with Retry-After, and not ready, until it is back", async () => {
  const { seen, jobs } = counting();
  const { offer, get } = await rig.start({ jobs });
  await rig.redis.kill("SIGKILL");
  await eventually("not ready", async () => (await get("/readyz")).status === 503);
  const refused = await offer("k");
  expect([refused.status, refused.json()["code"]]).toEqual([503, "runner.store_unavailable"]);
  expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
  expect((await get("/livez")).status).toBe(200);
  expect(seen.runs).toBe(0);
  await rig.redis.restart();
  await eventually("ready again", async () => (await get("/readyz")).status === 200);
  expect((await offer("k")).text).toBe("run 1");
});

test("a begin whose reply was lost does not lock the call out of this runner", async () => {
  const { seen, jobs } = counting();
  const { offer } = await rig.start({ jobs });
  await offer("another"); // from now on Redis knows the scripts
  const redis = connectForRequests(new Secret(rig.redis.url), silentLogger);
  try {
    await eventually("connected", () => redis.status === "ready");
    await redis.client("PAUSE", 2200, "WRITE");
    expect((await offer("k")).json()["code"]).toBe("runner.store_unavailable");
    const after = await eventually("it runs", async () => {
      const answer = await offer("k");
      return answer.status === 503 ? undefined : answer;
    });
    expect([after.status, seen.runs]).toEqual([201, 2]);
  } finally {
    redis.disconnect();
  }
});

test("beyond the concurrency limit a call is 429 with Retry-After, and nothing of it is begun", async () => {
  const { at, jobs } = gated();
  const { offer, get } = await rig.start({ jobs, concurrency: 2 });
  const running = [offer("k1"), offer("k2")];
  await eventually("both run", () => at.runs === 2);
  const refused = await offer("k3");
  expect([refused.status, refused.headers["retry-after"]]).toEqual([429, "1"]);
  expect(refused.json()["code"]).toBe("runner.throttled");
  expect((await get("/calls/k3")).status).toBe(404);
  at.open();
  await Promise.all(running);
  expect((await offer("k3")).status).toBe(200);
});

test("a stopping runner lets handlers at work end and answer, and begins nothing more", async () => {
  const { at, jobs } = gated();
  const { offer, runner } = await rig.start({ jobs });
  const first = offer("k1");
  await eventually("the handler runs", () => at.runs === 1);
  const closed = runner.close(5000);
  await expect(offer("k2")).rejects.toThrow(/ECONNREFUSED/);
  at.open();
  expect((await first).status).toBe(200);
  await closed;
});

test("a stop waits for an answer that Redis does not take yet, though its caller went away", async () => {
  const { at, jobs } = gated();
  const dying = await rig.start({ jobs });
  dying.offer("k").catch(() => {});
  await eventually("the handler runs", () => at.runs === 1);
  await rig.redis.kill("SIGKILL");
  at.open();
  await eventually("the answer cannot be stored", () =>
    dying.log.events.some(({ event }) => event === "job.store_delayed"),
  );
  const closed = dying.runner.close(10_000);
  await rig.redis.restart();
  await closed;
  const next = await rig.start({ jobs });
  expect((await next.offer("k")).headers["idempotent-replayed"]).toBe("true");
  expect(at.runs).toBe(1);
});
