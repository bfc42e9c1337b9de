import { beforeAll, expect, test } from "vitest";
import { createRouter } from "../../../../../services/runner/runner.ts";
import { type TestRunner, useRunners } from "../../../../fixtures/runners.ts";

const runners = useRunners();
let runner: TestRunner;
beforeAll(async () => {
  runner = await runners.start({ jobs: createRouter() });
});

test.each(["?state=finished", "?limit=many", "?job_id=-1"])(
  "the list of calls is refused with 400 when %s is asked for",
  async (query) => {
    const refused = await runner.get(`/calls${query}`);
    expect([refused.status, refused.json()["code"]]).toEqual([400, "request.malformed"]);
  },
);

test("a list that is to go on from a call no longer remembered is refused with 400, not begun anew", async () => {
  expect((await runner.get("/calls?after=forgotten")).status).toBe(400);
});
