import { beforeAll, describe, expect, test } from "vitest";
import { createRouter } from "../../../../services/runner/runner.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { listen } from "../../../../shared/http/listen.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { useOwnRedis } from "../../../fixtures/redis.ts";
import {
  type RunnersFixture,
  signedHeaders,
  type TestRunner,
  type TestRunnerOptions,
  useRunners,
} from "../../../fixtures/runners.ts";
import { send } from "../../../support/http.ts";
import { gate } from "../gated-jobs.ts";

type FailingJob = {
  runners: RunnersFixture;
  runner: TestRunner;
  /** The dependency of long job 1: its runs fail while `isUp` is false, and otherwise wait for the gate `at`. */
  dependency: { isUp: boolean; at: ReturnType<typeof gate> };
  /** One entry for each run of long job 1: call id, body and path. */
  seen: string[];
  /** Starts another runner with the same jobs. */
  another(options: Partial<TestRunnerOptions>): Promise<TestRunner>;
  look(id: string): Promise<Record<string, unknown>>;
  until(id: string, state: string): Promise<unknown>;
  /** Sends a long call and waits until all its attempts have failed. */
  fail(id: string): Promise<void>;
};

/** A runner with two jobs: long job 1 fails while its dependency is down, and short job 2 always answers 503. */
function useFailingJob(runners = useRunners()): FailingJob {
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

  const used = {
    runners,
    dependency,
    seen,
    another: (options) =>
      runners.start({
        jobs,
        long_attempts: 2,
        long_backoff: { base_ms: 1, cap_ms: 1 },
        ...options,
      }),
    look: async (id) => (await used.runner.get(`/calls/${id}`)).json(),
    until: (id, state) =>
      eventually(`${id} is ${state}`, async () => (await used.look(id))["state"] === state),
    async fail(id) {
      dependency.isUp = false;
      const offer = () => used.runner.offer(id, { body: "the input", headers: { "X-WEBHOOK-PATH": "/a" } });
      await eventually(`${id} is stored`, async () => (await offer()).status === 202); // 503 until Redis has restarted
      await used.until(id, "failed");
    },
  } as FailingJob;
  beforeAll(async () => {
    used.runner = await used.another({});
  });
  return used;
}

describe("202", () => {
  const job = useFailingJob();

  test("a failed long call runs again on request, with the same input and metadata and with new attempts", async () => {
    await job.fail("k");
    const again = await job.runner.runAgain("k");
    expect([again.status, again.json()]).toEqual([202, { status: "stored", call_id: "k" }]);
    await eventually("it has failed again", () => job.seen.length === 4);
    await job.until("k", "failed");
    job.dependency.isUp = true;
    job.dependency.at = gate();
    expect((await job.runner.runAgain("k")).status).toBe(202);
    await job.until("k", "running");
    expect(await job.look("k")).toMatchObject({ status: 202, attempts_failed: 0 });
    expect(await job.look("k")).not.toHaveProperty("code");
    job.dependency.at.open();
    await job.until("k", "done");
    expect(job.seen).toEqual(Array(5).fill("k the input /a"));
    const events = job.runner.log.events.filter(({ event }) => event === "job.run_again");
    expect(events.map(({ fields }) => fields)).toEqual([{ callId: "k" }, { callId: "k" }]);
  });

  test("a call that was run again answers a repeat with its first 202", async () => {
    await job.fail("repeated");
    job.dependency.isUp = true;
    job.dependency.at = gate();
    await job.runner.runAgain("repeated");
    const repeat = await job.runner.offer("repeated", { body: "the input" });
    expect([repeat.status, repeat.headers["idempotent-replayed"]]).toEqual([202, "true"]);
    job.dependency.at.open();
    await job.until("repeated", "done");
  });

  test("a signed request to run a call again is accepted if the runner has a secret", async () => {
    const secret = new Secret("of producer and runner");
    const closed = await job.another({ secrets: [secret] });
    await job.fail("signed");
    const signature = signedHeaders(secret, "signed", { path: "/calls/signed/run" });
    const headers = { "Idempotency-Key": "signed", ...signature };
    expect((await closed.runAgain("signed", { headers })).status).toBe(202);
  });
});

describe("400", () => {
  const job = useFailingJob();

  test.each([
    ["the key of another call", { "Idempotency-Key": "other" }],
    ["a Content-Digest of other bytes", { "Content-Digest": "sha-256=:AAAA:" }],
  ])("a request to run a call again with %s is refused with 400, and runs nothing", async (what, headers) => {
    const id = what.replaceAll(" ", "-");
    await job.fail(id);
    const refused = await job.runner.runAgain(id, { headers });
    expect([refused.status, refused.json()["code"]]).toEqual([400, "request.malformed"]);
    expect(await job.look(id)).toMatchObject({ state: "failed" });
  });
});

describe("401", () => {
  const SECRET = new Secret("of producer and runner");

  const job = useFailingJob();
  let closed: TestRunner;
  beforeAll(async () => {
    closed = await job.another({ secrets: [SECRET] });
    await job.fail("k");
  });

  const headersFor = (id: string, secret = SECRET) => signedHeaders(secret, id, { path: `/calls/${id}/run` });

  test.each([
    ["not signed", () => ({})],
    ["signed by another", () => headersFor("k", new Secret("another secret"))],
    ["signed for another call", () => headersFor("other")],
    ["signed for a job", () => signedHeaders(SECRET, "k")],
    ["signed for other bytes", () => signedHeaders(SECRET, "k", { body: "x", path: "/calls/k/run" })],
  ])("a request to run a call again that is %s is refused with 401, and runs nothing", async (_, headers) => {
    const refused = await closed.runAgain("k", { headers: { "Idempotency-Key": "k", ...headers() } });
    expect([refused.status, refused.json()["code"]]).toEqual([401, "runner.signature_rejected"]);
    expect(closed.log.events.at(-1)).toMatchObject({ event: "job.refused", fields: { callId: "k" } });
    expect(await job.look("k")).toMatchObject({ state: "failed" });
  });
});

describe("404", () => {
  const job = useFailingJob();

  test("a request to run an unknown call again is answered with 404", async () => {
    const answer = await job.runner.runAgain("unheard-of");
    expect(answer.json()).toMatchObject({ status: 404, code: "request.not_found" });
  });
});

describe("405", () => {
  const job = useFailingJob();

  test("a DELETE is refused with 405 at the path to run a call again, and the answer names POST, and GET for a key that ends in /run", async () => {
    const answer = await send(job.runner.address, { method: "DELETE", path: "/calls/x/run" });
    expect([answer.status, answer.headers["allow"]]).toEqual([405, "POST, GET, HEAD"]);
  });
});

describe("409", () => {
  const job = useFailingJob();

  test("a long call that is running or done is not run again: 409", async () => {
    job.dependency.isUp = true;
    job.dependency.at = gate();
    await job.runner.offer("fine", { body: "the input" });
    await job.until("fine", "running");
    const running = await job.runner.runAgain("fine");
    expect(running.json()).toMatchObject({ status: 409, code: "runner.busy" });
    job.dependency.at.open();
    await job.until("fine", "done");
    const done = await job.runner.runAgain("fine");
    expect([done.status, done.json()["detail"]]).toEqual([409, expect.stringContaining("done")]);
  });

  test("a failed short call is not run again: 409", async () => {
    const runner = await job.another({});
    expect((await runner.offer("short", { job: 2 })).status).toBe(503);
    const refused = await runner.runAgain("short");
    expect([refused.status, refused.json()["detail"]]).toEqual([409, expect.stringContaining("short")]);
    expect((await runner.get("/calls/short")).json()).toMatchObject({ state: "failed" });
  });

  test("a waiting long call is not run again: 409", async () => {
    const busy = await job.another({ concurrency: 1 });
    await job.runner.runner.close();
    job.dependency.isUp = true;
    job.dependency.at = gate();
    await busy.offer("first", { body: "the input" });
    await busy.offer("waits", { body: "the input" });
    const waiting = await busy.runAgain("waits");
    expect([waiting.status, waiting.json()["detail"]]).toEqual([409, expect.stringContaining("waiting")]);
    job.dependency.at.open();
  });
});

describe("413", () => {
  const job = useFailingJob();

  test("a request to run a call again is refused with 413 if it has a body, and runs nothing", async () => {
    await job.fail("k");
    const refused = await job.runner.runAgain("k", { body: "x" });
    expect([refused.status, refused.json()["code"]]).toEqual([413, "request.too_large"]);
    expect(await job.look("k")).toMatchObject({ state: "failed" });
  });
});

describe("503", () => {
  const redis = useOwnRedis();
  const job = useFailingJob(useRunners({ redis }));
  const ends = useEnds();

  test("a request to run a call again is refused with 503 while Redis is away", async () => {
    await job.fail("k");
    await redis.server.kill("SIGKILL");
    const refused = await eventually("Redis is missed", async () => {
      const answer = await job.runner.runAgain("k");
      return answer.status === 503 ? answer : undefined;
    });
    expect(refused.json()["code"]).toBe("runner.store_unavailable");
    expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
    await redis.server.restart();
    await eventually("Redis is back", async () => (await job.look("k"))["state"] === "failed");
  });

  test("a request to run a call again is refused with 503 by a stopping runner", async () => {
    await job.fail("kept");
    const { runner } = await job.another({});
    const server = await listen(runner.handler, "127.0.0.1:0");
    ends.defer(() => server.close(0));
    await runner.close();
    const refused = await send(server.address, { path: "/calls/kept/run" });
    expect([refused.status, refused.json()["code"]]).toEqual([503, "service.draining"]);
    expect(await job.look("kept")).toMatchObject({ state: "failed" });
  });
});
