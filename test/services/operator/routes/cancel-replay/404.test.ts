import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("a run that is not there cannot be cancelled: 404", async () => {
  const { ask } = await fixture.start();
  const answer = await ask("DELETE", `/api/v1/failed/replays/run_${"0".repeat(32)}`);
  expect(refusalOf(answer)).toEqual([404, "run.unknown"]);
});
