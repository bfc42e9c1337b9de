import { expect, test } from "vitest";
import { send } from "../../../../support/http.ts";
import { useFailingJob } from "./failing-job.ts";

const job = useFailingJob();

test("a DELETE is refused with 405 where a call is run again, and the answer names POST", async () => {
  const answer = await send(job.runner.address, { method: "DELETE", path: "/calls/x/run" });
  expect([answer.status, answer.headers["allow"]]).toEqual([405, "POST"]);
});
