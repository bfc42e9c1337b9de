import { expect, test } from "vitest";
import { useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("ending a session that is not there is well too, with 204", async () => {
  const { ask } = await fixture.start();
  expect((await ask("DELETE", "/session", { as: "nobody" })).status).toBe(204);
});
