import { expect, test } from "vitest";
import { JOB_PATH, PRICE, useX402 } from "../../../fixtures/x402.ts";
import { type Answer, send } from "../../../support/http.ts";

const fixture = useX402();
const NAMED = "/x402/jobs/1/8";
const prices = { "7": "1000000000000000", "8": "1000000000000000" };

const outcome = ({ status, json }: Answer) => [status, json()["code"] ?? json()["status"]];

test("if jobs are disabled by default, only a job whose own policy allows it is for sale, even if other jobs have prices", async () => {
  const open = await fixture.gateway({ prices });
  const payments = [{}, await open.pay({ payer: fixture.payer }), await open.payV1({ payer: fixture.payer })];
  const job_policies = [{ service_id: 1, job_index: 8, invocation_mode: "public_paid" }];
  const x402 = await fixture.gateway({
    prices,
    x402: { default_invocation_mode: "disabled", job_policies },
  });
  const priceOf = (path: string) => send(x402.address, { method: "GET", path: `${path}/price` });
  for (const headers of payments) {
    const answer = await x402.post(headers);
    expect(outcome(answer)).toEqual([403, "job.disabled"]);
    expect(answer.headers["payment-required"]).toBeUndefined();
  }
  expect(outcome(await x402.post(payments[1], { path: `${JOB_PATH}/auth-dry-run` }))).toEqual([
    403,
    "job.disabled",
  ]);
  expect(outcome(await priceOf(JOB_PATH))).toEqual([403, "job.disabled"]);
  expect([await fixture.asked(), await fixture.charged()]).toEqual([{ verify: 0, settle: 0 }, []]);

  expect((await priceOf(NAMED)).json()["policy"]).toBe("public_paid");
  expect(outcome(await x402.post({}, { path: NAMED }))).toEqual([402, "payment.required"]);
  const paid = await x402.post(payments[2], { path: NAMED });
  expect(outcome(paid)).toEqual([202, "accepted"]);
  expect(await fixture.charged()).toEqual([PRICE]);
});
