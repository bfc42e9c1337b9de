import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";
import { auditOf } from "../../audit-of.ts";

const fixture = useOperator();

test.each([
  [{}],
  [{ reason: "  " }],
  [{ reason: 1 }],
  [{ reason: "x".repeat(1001) }],
  [{ reason: "x", job: "7/2" }],
])(
  "a pause without a reason that can be kept is refused with 400, and nothing is changed: %j",
  async (json) => {
    const { post, get } = await fixture.start();
    const refused = await post("/api/v1/jobs/7/1/pause", json);
    expect(refusalOf(refused)).toEqual([400, "request.malformed"]);
    expect((await get("/api/v1/jobs")).json()).toEqual({ jobs: [], next: null });
    expect(await auditOf(fixture.redis)).toEqual([]);
  },
);

test("a body that is no JSON, and one that is no UTF-8, are refused with 400", async () => {
  const { ask } = await fixture.start();
  for (const body of ["{", Buffer.from([0x22, 0xff, 0x22])]) {
    const headers = { "Content-Type": "application/json", "Content-Length": String(body.length) };
    const answer = await ask("POST", "/api/v1/jobs/7/1/pause", { headers, ...{ body } });
    expect(refusalOf(answer)).toEqual([400, "request.malformed"]);
  }
});
