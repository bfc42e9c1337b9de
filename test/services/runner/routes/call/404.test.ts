import { expect, test } from "vitest";
import { createRouter } from "../../../../../services/runner/runner.ts";
import { useRunners } from "../../../../fixtures/runners.ts";

const runners = useRunners();

test("a call that no runner remembers is answered with 404", async () => {
  const { get } = await runners.start({ jobs: createRouter() });
  const answer = await get("/calls/unheard-of");
  expect([answer.status, answer.json()["code"]]).toEqual([404, "request.not_found"]);
});
