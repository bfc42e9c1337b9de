import { expect, test } from "vitest";
import { JOB_PATH, useX402 } from "../../../../fixtures/x402.ts";
import { send } from "../../../../support/http.ts";

const fixture = useX402();

test("the price of a disabled job is 403, names the job and holds no price and nothing that can be paid", async () => {
  const job_policies = [{ service_id: 1, job_index: 7, invocation_mode: "disabled" }];
  const x402 = await fixture.gateway({ x402: { job_policies } });
  const answer = await send(x402.address, { method: "GET", path: `${JOB_PATH}/price` });
  expect(answer.status).toBe(403);
  expect(answer.json()).toMatchObject({ code: "job.disabled", service_id: 1, job_index: 7 });
  expect(answer.text).not.toMatch(/settlement_options|price_wei|pay_to/);
});
