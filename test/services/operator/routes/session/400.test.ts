import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test.each([[{}], [{ token: 1 }], [{ token: "x", role: "operator" }], [[]], ["text"]])(
  "a session is refused with 400 for %j, which is no token",
  async (json) => {
    const { post } = await fixture.start();
    expect(refusalOf(await post("/session", json, { as: "nobody" }))).toEqual([400, "request.malformed"]);
  },
);

test("a session is refused with 400 for JSON that is too deep to be parsed", async () => {
  const { post } = await fixture.start();
  const deep = JSON.parse(`${"[".repeat(65)}${"]".repeat(65)}`);
  const answer = await post("/session", deep, { as: "nobody" });
  expect([answer.status, answer.json()["detail"]]).toEqual([400, "body: is nested more than 64 deep"]);
});
