import { expect, test } from "vitest";
import { useFailingJob } from "./failing-job.ts";

const job = useFailingJob();

test("a request to run a call again is answered with 404 where the call is not known", async () => {
  const answer = await job.runner.runAgain("unheard-of");
  expect(answer.json()).toMatchObject({ status: 404, code: "request.not_found" });
});
