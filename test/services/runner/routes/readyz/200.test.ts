import { expect, test } from "vitest";
import { createRouter } from "../../../../../services/runner/runner.ts";
import { useRunners } from "../../../../fixtures/runners.ts";

const runners = useRunners();

test("a runner that takes calls is ready, and says how Redis keeps them", async () => {
  const { get } = await runners.start({ jobs: createRouter() });
  const answer = await get("/readyz");
  expect([answer.status, answer.json()]).toEqual([
    200,
    {
      ...{ status: "ready", redis: "always", durability: "strict", draining: false },
      clock_ahead_ms: expect.any(Number),
    },
  ]);
});
