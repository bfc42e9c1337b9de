import { expect, test } from "vitest";
import { useFailingJob } from "./failing-job.ts";

const job = useFailingJob();

test("a request to run a call again that has a body is refused with 413, and runs nothing", async () => {
  await job.fail("k");
  const refused = await job.runner.runAgain("k", { body: "x" });
  expect([refused.status, refused.json()["code"]]).toEqual([413, "request.too_large"]);
  expect(await job.look("k")).toMatchObject({ state: "failed" });
});
