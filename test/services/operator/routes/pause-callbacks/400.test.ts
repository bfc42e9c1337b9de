import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test.each([
  "a%0Ab",
  "a%2Fb",
  "a%2fb/80",
  "%2e%2e%2fx",
  "loc%2561lhost",
  "a%00",
  "a%7F",
  "a%C2%85b",
  "a%",
  "%FF",
  "a%0Ab/80",
])(
  "a host that decodes to a slash, a percent sign, a control character or no UTF-8 is refused: %s",
  async (host) => {
    const { post, get } = await fixture.start();
    const refused = await post(`/api/v1/jobs/callback/${host}/pause`, { reason: "x" });
    expect(refusalOf(refused)).toEqual([400, "request.malformed"]);
    expect((await get("/api/v1/jobs")).json()).toEqual({ jobs: [], next: null });
  },
);

test("who may not act is told that before anything of the path is", async () => {
  const { post } = await fixture.start();
  const refused = await post("/api/v1/jobs/callback/a%0Ab/pause", { reason: "x" }, { as: "nobody" });
  expect(refused.status).toBe(401);
});
