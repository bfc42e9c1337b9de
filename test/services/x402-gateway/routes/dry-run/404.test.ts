import { expect, test } from "vitest";
import { JOB_PATH, useX402 } from "../../../../fixtures/x402.ts";
import { expectRefusedAlike } from "./refused-alike.ts";

const fixture = useX402();

test.each([
  ["without a payment", {}],
  ["with a payment header that does not read", { "X-PAYMENT": "AAAA" }],
])("a dry-run %s of a job without a price is refused with 404", async (_how, headers) => {
  const x402 = await fixture.gateway();
  const path = "/x402/jobs/1/9";
  await expectRefusedAlike(fixture, x402, {
    headers: { ...headers },
    path,
    status: 404,
    code: "job.not_found",
  });
});

test("a dry-run's path with anything behind it is 404", async () => {
  const x402 = await fixture.gateway();
  const answer = await x402.post({}, { path: `${JOB_PATH}/auth-dry-run/` });
  expect([answer.status, answer.json()["code"]]).toEqual([404, "request.not_found"]);
});
