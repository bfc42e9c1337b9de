import { expect, test } from "vitest";
import { z } from "zod";
import { echo } from "../../../../../services/runner/jobs.ts";
import { createRouter, json } from "../../../../../services/runner/runner.ts";
import { sha256Hex } from "../../../../../shared/crypto/compare.ts";
import { useRunners } from "../../../../fixtures/runners.ts";

const jobs = createRouter()
  .job(1, echo)
  .job(2, { name: "add", input: json(z.strictObject({ a: z.int() })), handler: () => ({}) });

const runners = useRunners();

test("a call is shown with job, state, times, status, size and hash, and without its bytes", async () => {
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

test("a failed call is shown with its code, and never with what its handler said", async () => {
  const runner = await runners.start({ jobs });
  await runner.offer("bad", { job: 2, body: "{" });
  const { code, ...bad } = (await runner.get("/calls/bad")).json();
  expect(code).toBe("runner.input_rejected");
  expect(bad).not.toHaveProperty("reason");
});

test("a call whose key ends in /run is shown as any other", async () => {
  const runner = await runners.start({ jobs });
  await runner.offer("a/run", { body: "x" });
  expect((await runner.get("/calls/a/run")).json()).toMatchObject({ id: "a/run", state: "done" });
});
