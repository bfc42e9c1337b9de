import { expect, test } from "vitest";
import { JOB_PATH, useX402 } from "../../../../fixtures/x402.ts";

const fixture = useX402();
test.each([
  "/x402/jobs/1/%37",
  "/x402/jobs/%31/7",
  "/x402/jobs/01/7",
  "/x402/jobs/1/07",
  "/x402/jobs/+1/7",
  "/x402/jobs/-1/7",
  "/x402/jobs/1.0/7",
  "/x402/jobs/1e0/7",
  "/x402/jobs/0x1/7",
  "/x402/jobs/1/7/",
  "/x402/jobs/1//7",
  "/x402/jobs/1/7/.",
  "/x402/jobs/1/8/../7",
  "/X402/jobs/1/7",
  "/x402/JOBS/1/7",
  "/x402/jobs/1/4294967303",
  "/x402/jobs/9007199254740993/7",
  "/x402/jobs/18446744073709551617/7",
  "/x402/jobs/1/7;a",
  "/x402/jobs/1/7%00",
  "/x402/jobs/1/7/settle",
])("the path %s is 404 with or without a payment, and never a job", async (path) => {
  const x402 = await fixture.gateway();
  const payment = await x402.pay({ payer: fixture.payer });
  for (const headers of [{}, payment, { "PAYMENT-SIGNATURE": "no payment" }]) {
    const answer = await x402.post(headers, { path });
    expect([answer.status, answer.json()["code"]]).toEqual([404, "request.not_found"]);
  }
  expect(await x402.waiting()).toEqual([]);
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
});

test("a query is no part of a job's path", async () => {
  expect((await (await fixture.gateway()).post({}, { path: `${JOB_PATH}?a=/../8` })).status).toBe(402);
});

test("a job without a price is 404 even with a payment, and the answer names it", async () => {
  const x402 = await fixture.gateway();
  const paths = ["/x402/jobs/1/4294967295", "/x402/jobs/2/7", "/x402/jobs/0/0"];
  const payments: Record<string, string>[] = [{}, { "PAYMENT-SIGNATURE": "no payment" }];
  for (const [path, headers] of paths.flatMap((each) =>
    payments.map((payment) => [each, payment] as const),
  )) {
    const answer = await x402.post(headers, { path });
    const [serviceId, jobIndex] = path.split("/").slice(3).map(Number);
    expect(answer.status).toBe(404);
    expect(answer.json()).toMatchObject({
      error: "job not found",
      code: "job.not_found",
      service_id: serviceId,
      job_index: jobIndex,
    });
  }
});
