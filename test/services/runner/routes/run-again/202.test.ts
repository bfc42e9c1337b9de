import { expect, test } from "vitest";
import { Secret } from "../../../../../shared/crypto/secret.ts";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { signedHeaders } from "../../../../fixtures/runners.ts";
import { gate } from "../../gated-jobs.ts";
import { useFailingJob } from "./failing-job.ts";

const job = useFailingJob();

test("a failed long call runs again when asked to, with the same input, metadata and fresh attempts", async () => {
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

test("a call that was asked to run again answers a repeat with its first 202", async () => {
  await job.fail("repeated");
  job.dependency.isUp = true;
  job.dependency.at = gate();
  await job.runner.runAgain("repeated");
  const repeat = await job.runner.offer("repeated", { body: "the input" });
  expect([repeat.status, repeat.headers["idempotent-replayed"]]).toEqual([202, "true"]);
  job.dependency.at.open();
  await job.until("repeated", "done");
});

test("a signed request to run a call again is taken where the runner has a secret", async () => {
  const secret = new Secret("of producer and runner");
  const closed = await job.another({ secrets: [secret] });
  await job.fail("signed");
  const signature = signedHeaders(secret, "signed", { path: "/calls/signed/run" });
  const headers = { "Idempotency-Key": "signed", ...signature };
  expect((await closed.runAgain("signed", { headers })).status).toBe(202);
});
