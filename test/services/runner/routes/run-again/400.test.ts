import { expect, test } from "vitest";
import { useFailingJob } from "./failing-job.ts";

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
