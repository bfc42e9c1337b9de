import { expect, test } from "vitest";
import { echo, keccak256, slow } from "../../../../../services/runner/jobs.ts";
import { createRouter } from "../../../../../services/runner/runner.ts";
import { useRunners } from "../../../../fixtures/runners.ts";

const runners = useRunners();

test("the catalog names the jobs by their ids, and says which are long", async () => {
  const jobs = createRouter().job(3, slow).job(1, echo).job(2, keccak256);
  const { get } = await runners.start({ jobs });
  const catalog = await get("/jobs");
  expect([catalog.status, catalog.json()]).toEqual([
    200,
    {
      jobs: [
        { id: 1, name: "echo", long: false },
        { id: 2, name: "keccak256", long: false },
        { id: 3, name: "slow", long: true },
      ],
    },
  ]);
});
