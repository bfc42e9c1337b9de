import { beforeAll, expect, test } from "vitest";
import { echo } from "../../../../../services/runner/jobs.ts";
import { createRouter } from "../../../../../services/runner/runner.ts";
import { type TestRunner, useRunners } from "../../../../fixtures/runners.ts";
import { send } from "../../../../support/http.ts";

const runners = useRunners();
let runner: TestRunner;
beforeAll(async () => {
  runner = await runners.start({ jobs: createRouter().job(1, echo) });
});

test.each([
  ["/jobs/01", "request.not_found"],
  ["/jobs/1/", "request.not_found"],
  ["/jobs/%31", "request.not_found"],
  ["/jobs/1?x=1", "request.not_found"],
  ["/JOBS/1", "request.not_found"],
  ["/jobs/9007199254740992", "request.not_found"],
  ["/jobs/77", "runner.job_unknown"],
])("a POST to %s is answered with 404 %s", async (path, code) => {
  const answer = await send(runner.address, { path, headers: { "Idempotency-Key": "k" }, body: "" });
  expect([answer.status, answer.json()["code"]]).toEqual([404, code]);
});
