import { describe, expect, test } from "vitest";
import { z } from "zod";
import { echo } from "../../../../services/runner/jobs.ts";
import { createRouter, json } from "../../../../services/runner/runner.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { sha256Hex } from "../../../../shared/platform/crypto/compare.ts";
import { useOwnRedis } from "../../../fixtures/redis.ts";
import { useRunners } from "../../../fixtures/runners.ts";
import { send } from "../../../support/http.ts";

describe("200", () => {
  const jobs = createRouter()
    .job(1, echo)
    .job(2, { name: "add", input: json(z.strictObject({ a: z.int() })), handler: () => ({}) });

  const runners = useRunners();

  test("a call is shown with job, state, times, status, size and hash, but without its bytes", async () => {
    const runner = await runners.start({ jobs });
    await runner.offer("done", { body: "x1" });
    const at = expect.any(Number);
    expect((await runner.get("/calls/done")).json()).toEqual({
      id: "done",
      job_id: 1,
      state: "done",
      started_at: at,
      finished_at: at,
      status: 200,
      bytes: 2,
      sha256: sha256Hex(Buffer.from("x1")),
    });
  });

  test("a failed call is shown with its code, but never with the handler's message", async () => {
    const runner = await runners.start({ jobs });
    await runner.offer("bad", { job: 2, body: "{" });
    const { code, ...bad } = (await runner.get("/calls/bad")).json();
    expect(code).toBe("runner.input_rejected");
    expect(bad).not.toHaveProperty("reason");
  });

  test("a call whose key ends in /run is shown like any other", async () => {
    const runner = await runners.start({ jobs });
    await runner.offer("a/run", { body: "x" });
    expect((await runner.get("/calls/a/run")).json()).toMatchObject({ id: "a/run", state: "done" });
  });
});

describe("404", () => {
  const runners = useRunners();

  test("a call that no runner remembers is answered with 404", async () => {
    const { get } = await runners.start({ jobs: createRouter() });
    const answer = await get("/calls/unheard-of");
    expect([answer.status, answer.json()["code"]]).toEqual([404, "request.not_found"]);
  });
});

describe("405", () => {
  const runners = useRunners();

  test("a DELETE is refused with 405 at a call, and the answer names GET and HEAD", async () => {
    const { address } = await runners.start({ jobs: createRouter() });
    const answer = await send(address, { method: "DELETE", path: "/calls/x" });
    expect([answer.status, answer.headers["allow"]]).toEqual([405, "GET, HEAD"]);
  });
});

describe("503", () => {
  const redis = useOwnRedis();
  const runners = useRunners({ redis });

  test("a call is answered with 503 and Retry-After while Redis is away", async () => {
    const { get } = await runners.start({ jobs: createRouter() });
    await redis.server.kill("SIGKILL");
    await eventually("Redis is missed", async () => (await get("/readyz")).status === 503);
    const refused = await get("/calls/k");
    expect([refused.status, refused.json()["code"]]).toEqual([503, "runner.store_unavailable"]);
    expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
  });
});
