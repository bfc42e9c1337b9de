import { describe, expect, test } from "vitest";
import { echo, keccak256, slow } from "../../../../services/runner/jobs.ts";
import { createRouter } from "../../../../services/runner/runner.ts";
import { useRunners } from "../../../fixtures/runners.ts";
import { send } from "../../../support/http.ts";

const runners = useRunners();

describe("200", () => {
  test("the list of jobs has their names and ids, and says which are long", async () => {
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
});

describe("405", () => {
  test("a POST is refused with 405 at the catalog of jobs, and the answer names GET and HEAD", async () => {
    const { address } = await runners.start({ jobs: createRouter() });
    const answer = await send(address, { path: "/jobs" });
    expect([answer.status, answer.headers["allow"]]).toEqual([405, "GET, HEAD"]);
  });
});
