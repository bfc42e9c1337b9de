import { expect, test } from "vitest";
import { gate } from "../../gated-jobs.ts";
import { useFailingJob } from "./failing-job.ts";

const job = useFailingJob();

test("a long call that runs or is done is not run again: 409", async () => {
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

test("a long call that waits is not run again: 409", async () => {
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
