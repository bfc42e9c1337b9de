import { expect, test } from "vitest";
import { useX402 } from "../../../../fixtures/x402.ts";
import { send } from "../../../../support/http.ts";

const fixture = useX402();

test("the price of a job that has none is 404, and the answer names the job", async () => {
  const x402 = await fixture.gateway();
  const answer = await send(x402.address, { method: "GET", path: "/x402/jobs/2/7/price" });
  expect(answer.status).toBe(404);
  expect(answer.json()).toMatchObject({ code: "job.not_found", service_id: 2, job_index: 7 });
});

test.each([
  "/x402/jobs/01/7/price",
  "/x402/jobs/1/%37/price",
  "/x402/jobs/1/7/price/",
  "/x402/jobs/1/7/PRICE",
])("the path %s is 404, and never the price of a job", async (path) => {
  const x402 = await fixture.gateway();
  const answer = await send(x402.address, { method: "GET", path });
  expect([answer.status, answer.json()["code"]]).toEqual([404, "request.not_found"]);
});
