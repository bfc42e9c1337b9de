import { describe, expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { auditOf } from "../audit-of.ts";

const fixture = useOperator();
const ROUTE = "/api/v1/reload";

describe("200", () => {
  test("each reload has the next number, and a line in the audit log", async () => {
    const { post } = await fixture.start();
    const first = await post(ROUTE, { reason: "a new endpoint" });
    const second = await post(ROUTE, { reason: "once more" });
    expect([first.json(), second.json()]).toEqual([{ number: 1 }, { number: 2 }]);
    expect(await auditOf(fixture.redis)).toMatchObject([
      { action: "reload", by: "otto", reason: "a new endpoint" },
      { action: "reload", by: "otto", reason: "once more" },
    ]);
  });
});

describe("400", () => {
  test.each([[{}], [{ reason: "" }]])("a body %j is refused", async (json) => {
    const { post } = await fixture.start();
    expect(refusalOf(await post(ROUTE, json))).toEqual([400, "request.malformed"]);
  });
});

describe("403", () => {
  test("a viewer may not request a reload", async () => {
    const { post } = await fixture.start();
    const refused = await post(ROUTE, { reason: "x" }, { as: "viewer" });
    expect(refusalOf(refused)).toEqual([403, "operator.forbidden"]);
  });
});
