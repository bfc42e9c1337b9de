import { expect, test } from "vitest";
import { createRouter } from "../../../../../services/runner/runner.ts";
import { useRunners } from "../../../../fixtures/runners.ts";
import { send } from "../../../../support/http.ts";

const runners = useRunners();

test("a POST is refused with 405 at the probe for life, and the answer names GET", async () => {
  const { address } = await runners.start({ jobs: createRouter() });
  const answer = await send(address, { path: "/livez" });
  expect([answer.status, answer.headers["allow"]]).toEqual([405, "GET"]);
});
