import { expect, test } from "vitest";
import { useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("ending none is not logged, so that nobody can fill the log", async () => {
  const { ask, log } = await fixture.start();
  for (let i = 0; i < 3; i++) await ask("DELETE", "/session", { as: "nobody" });
  expect(log.events.map(({ event }) => event)).not.toContain("operator.signed_out");
});

test("ending a session that is not there is well too, with 204", async () => {
  const { ask } = await fixture.start();
  expect((await ask("DELETE", "/session", { as: "nobody" })).status).toBe(204);
});
