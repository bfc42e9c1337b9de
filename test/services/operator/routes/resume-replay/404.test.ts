import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("a run that is not there cannot go on: 404", async () => {
  const { post } = await fixture.start();
  const answer = await post(`/api/v1/failed/replays/run_${"0".repeat(32)}/resume`, {});
  expect(refusalOf(answer)).toEqual([404, "run.unknown"]);
});
