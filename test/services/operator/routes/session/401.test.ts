import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test("a token that is not known begins no session: 401, and no cookie", async () => {
  const { post } = await fixture.start();
  const answer = await post("/session", { token: "not-known-to-anybody-here" }, { as: "nobody" });
  expect(refusalOf(answer)).toEqual([401, "operator.unauthorized"]);
  expect(answer.headers["set-cookie"]).toBeUndefined();
});
