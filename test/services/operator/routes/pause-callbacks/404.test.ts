import { expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../../fixtures/operator.ts";

const fixture = useOperator();

test.each([
  ...[
    "callback/%2e%2e",
    "callback/a..b",
    "callback/a%20b",
    "callback/a%40b",
    "callback/a%5Cb",
    "callback/a%3Fb",
  ],
  ...[
    "callback/::1",
    "callback/a/0",
    "callback/a/65536",
    "callback/a/x",
    "CALLBACK/a",
    "%63allback/a",
    "07/1",
    "7/01",
  ],
])("%s names no job and no receiver, and nothing is paused", async (job) => {
  const { post, get } = await fixture.start();
  const refused = await post(`/api/v1/jobs/${job}/pause`, { reason: "x" });
  expect(refusalOf(refused)).toEqual([404, "request.not_found"]);
  expect((await get("/api/v1/jobs")).json()).toEqual({ jobs: [], next: null });
});
