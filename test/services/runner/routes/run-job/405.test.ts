import { expect, test } from "vitest";
import { createRouter } from "../../../../../services/runner/runner.ts";
import { useRunners } from "../../../../fixtures/runners.ts";
import { send } from "../../../../support/http.ts";

const runners = useRunners();

test("a method other than POST is refused with 405 at a job, and the answer names POST", async () => {
  const { address } = await runners.start({ jobs: createRouter() });
  for (const method of ["GET", "PUT", "DELETE", "OPTIONS"]) {
    const answer = await send(address, { method, path: "/jobs/1" });
    expect([answer.status, answer.headers["allow"]]).toEqual([405, "POST"]);
  }
});
