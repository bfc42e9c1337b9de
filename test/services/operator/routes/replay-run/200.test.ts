import { expect, test } from "vitest";
import { useOperator } from "../../../../fixtures/operator.ts";
import { runIn } from "../../run-of.ts";

const fixture = useOperator();

test("any replica shows a run, to a viewer too", async () => {
  const [one, other] = [await fixture.start(), await fixture.start()];
  const begun = await one.post("/api/v1/failed/replays", { all: true, reason: "nothing is there" });
  const location = String(begun.headers["location"]);
  await runIn(one, location, "done");
  const shown = await other.get(location, { as: "viewer" });
  expect([shown.status, shown.json()]).toMatchObject([200, { state: "done", matched: 0, done: 0 }]);
});
