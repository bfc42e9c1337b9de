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
