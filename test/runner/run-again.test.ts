import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createRouter } from "../../services/runner/runner.ts";
import { Secret } from "../../shared/crypto/secret.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { runnerKeys } from "../../shared/redis/keys.ts";
import { gate, onRedis, type Rig, signedHeaders, startRig, type TestRunner } from "./runners.ts";

const SECRET = new Secret("of producer and runner");

/** Of the long job 1: what its runs saw, and what they wait for or fail with. */
const dependency = { isUp: false, at: gate() };
const seen: string[] = [];
const jobs = createRouter()
  .job(1, {
    name: "long",
    long: true,
    async handler({ callId, body, metadata }) {
      seen.push(`${callId} ${body} ${metadata["X-WEBHOOK-PATH"]}`);
      if (!dependency.isUp) throw new Error("the dependency is down");
      await dependency.at.opened;
    },
  })
  .job(2, { name: "short", handler: () => ({ status: 503 }) });

const LONG = { longAttempts: 2, longBackoff: { baseMs: 1, capMs: 1 } };

let rig: Rig;
let open: TestRunner;
beforeAll(async () => {
  rig = await startRig();
  open = await rig.start({ jobs, ...LONG });
});
afterAll(() => rig.stop());

const look = async (id: string) => (await open.get(`/calls/${id}`)).json();
const until = (id: string, state: string) =>
  eventually(`${id} is ${state}`, async () => (await look(id))["state"] === state);

async function fail(id: string): Promise<void> {
  dependency.isUp = false;
  await open.offer(id, { body: "the input", headers: { "X-WEBHOOK-PATH": "/a" } });
  await until(id, "failed");
}

test("a failed long call runs again when asked to, with the same input, metadata and fresh attempts", async () => {
  await fail("k");
  const again = await open.runAgain("k");
  expect([again.status, again.json()]).toEqual([202, { status: "stored", call_id: "k" }]);
  await eventually("it has failed again", () => seen.length === 4);
  await until("k", "failed");
  dependency.isUp = true;
  dependency.at = gate();
  expect((await open.runAgain("k")).status).toBe(202);
  await until("k", "running");
  expect(await look("k")).toMatchObject({ status: 202, attempts_failed: 0 });
  expect(await look("k")).not.toHaveProperty("code");
  dependency.at.open();
  await until("k", "done");
  expect(seen).toEqual(Array(5).fill("k the input /a"));
  const events = open.log.events.filter(({ event }) => event === "job.run_again");
  expect(events.map(({ fields }) => fields)).toEqual([{ callId: "k" }, { callId: "k" }]);
});

test("a call that was asked to run again answers a repeat with its first 202", async () => {
  await fail("repeated");
  dependency.isUp = true;
  dependency.at = gate();
  await open.runAgain("repeated");
  const repeat = await open.offer("repeated", { body: "the input" });
  expect([repeat.status, repeat.headers["idempotent-replayed"]]).toEqual([202, "true"]);
  dependency.at.open();
  await until("repeated", "done");
});

test("only a failed long call runs again: 404 for one unknown, 409 for one that waits, runs or is done, and for a short one", async () => {
  expect((await open.runAgain("unheard-of")).json()).toMatchObject({
    status: 404,
    code: "request.not_found",
  });
  dependency.isUp = true;
  dependency.at = gate();
  await open.offer("fine", { body: "the input" });
  await until("fine", "running");
  expect((await open.runAgain("fine")).json()).toMatchObject({ status: 409, code: "runner.busy" });
  dependency.at.open();
  await until("fine", "done");
  const done = await open.runAgain("fine");
  expect([done.status, done.json()["detail"]]).toEqual([409, expect.stringContaining("done")]);
  await open.offer("short", { job: 2 });
  await until("short", "failed");
  expect((await open.runAgain("short")).status).toBe(409);
  expect(await look("short")).toMatchObject({ state: "failed" });
});

test("a failed long call is kept and shows how often it was tried; a failed short one is forgotten in time", async () => {
  await fail("kept");
  await open.offer("passing", { job: 2 });
  await until("passing", "failed");
  expect(await look("kept")).toMatchObject({ status: 500, attempts_failed: 2 });
  const [kept, passing] = await onRedis(rig, (redis) =>
    Promise.all([redis.pttl(runnerKeys.call("kept")), redis.pttl(runnerKeys.call("passing"))]),
  );
  expect(kept).toBe(-1);
  expect(passing).toBeGreaterThan(0);
});

test("a request to run a call again has no body, and no key but the call's own", async () => {
  await fail("plain");
  expect((await open.runAgain("plain", { body: "x" })).status).toBe(413);
  expect((await open.runAgain("plain", { headers: { "Idempotency-Key": "other" } })).status).toBe(400);
  expect(await look("plain")).toMatchObject({ state: "failed" });
});

describe("with a secret", () => {
  let closed: TestRunner;
  beforeAll(async () => {
    closed = await rig.start({ jobs, ...LONG, secrets: [SECRET] });
    await fail("signed");
  });

  test.each([
    ["not signed", () => ({})],
    ["signed by another", () => headersFor("signed", new Secret("of somebody else"))],
    ["signed for another call", () => headersFor("other")],
    ["signed for a job", () => signedHeaders(SECRET, "signed")],
    [
      "signed for other bytes",
      () => signedHeaders(SECRET, "signed", { body: "x", path: "/calls/signed/run" }),
    ],
  ])("a request %s is 401 and runs nothing", async (_what, headers) => {
    const key = { "Idempotency-Key": "signed" };
    const refused = await closed.runAgain("signed", { headers: { ...key, ...headers() } });
    expect([refused.status, refused.json()["code"]]).toEqual([401, "runner.signature_rejected"]);
    expect(closed.log.events.at(-1)).toMatchObject({ event: "job.refused", fields: { callId: "signed" } });
    expect(await look("signed")).toMatchObject({ state: "failed" });
  });

  test("a signed one is taken", async () => {
    const headers = { "Idempotency-Key": "signed", ...headersFor("signed") };
    expect((await closed.runAgain("signed", { headers })).status).toBe(202);
  });

  function headersFor(id: string, secret = SECRET) {
    return signedHeaders(secret, id, { path: `/calls/${id}/run` });
  }
});
