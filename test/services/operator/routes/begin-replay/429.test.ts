import { expect, test } from "vitest";
import { OPEN_RUNS_MAX } from "../../../../../shared/runs/run.ts";
import { createRunStore } from "../../../../../shared/runs/store.ts";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("while so many runs are open that no more are taken, a replay is refused with 429", async () => {
  const store = createRunStore(fixture.redis.partition);
  for (let i = 0; i < OPEN_RUNS_MAX; i++)
    await store.create({ kind: "of a later release", by: "x", request: {} });
  const { post } = await fixture.start();
  const refused = await post("/api/v1/failed/replays", { all: true, reason: "x" });
  expect(refusalOf(refused)).toEqual([429, "run.too_many"]);
  expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
});
