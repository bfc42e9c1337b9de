import { describe, expect, test } from "vitest";
import { JOB_PATH, useX402 } from "../../../../fixtures/x402.ts";
import { type Sent, send } from "../../../../support/http.ts";

const fixture = useX402();
const PERMITTED = "0x2222222222222222222222222222222222222222";

const policies = [
  { service_id: 1, job_index: 8, invocation_mode: "disabled" },
  {
    service_id: 1,
    job_index: 9,
    invocation_mode: "restricted_paid",
    auth_mode: "payer_is_caller",
    rpc_url: "http://127.0.0.1:1",
    contract: PERMITTED,
  },
];
const prices = { "7": "1000000000000000", "8": "1000000000000000", "9": "1" };

describe("paths", () => {
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
  ])("%s is 404 with or without a payment, and never a job", async (path) => {
    const x402 = await fixture.gateway();
    const payment = await x402.pay({ payer: fixture.payer });
    for (const headers of [{}, payment, { "PAYMENT-SIGNATURE": "no payment" }]) {
      const answer = await x402.post(headers, { path });
      expect([answer.status, answer.json()["code"]]).toEqual([404, "request.not_found"]);
    }
    expect(await x402.waiting()).toEqual([]);
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  });

  test("a query is no part of the path", async () => {
    expect((await (await fixture.gateway()).post({}, { path: `${JOB_PATH}?a=/../8` })).status).toBe(402);
  });

  test("a job without a price is 404, and the answer names it", async () => {
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

  test("a disabled job is 403, paid or not, and its price says so", async () => {
    const x402 = await fixture.gateway({ prices, x402: { job_policies: policies } });
    const path = "/x402/jobs/1/8";
    const payment = await x402.pay({ payer: fixture.payer });
    for (const headers of [{}, payment, { "PAYMENT-SIGNATURE": "no payment" }]) {
      const answer = await x402.post(headers, { path });
      expect([answer.status, answer.json()["code"]]).toEqual([403, "job.disabled"]);
      expect(answer.headers["payment-required"]).toBeUndefined();
    }
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
    const price = await send(x402.address, { method: "GET", path: `${path}/price` });
    expect(price.json()["policy"]).toBe("disabled");
    const restricted = await send(x402.address, { method: "GET", path: "/x402/jobs/1/9/price" });
    expect(restricted.json()["policy"]).toBe("restricted_paid");
  });

  const others: [string, string, string][] = [
    ["GET", JOB_PATH, "POST, OPTIONS"],
    ["PUT", JOB_PATH, "POST, OPTIONS"],
    ["DELETE", JOB_PATH, "POST, OPTIONS"],
    ["POST", `${JOB_PATH}/price`, "GET, HEAD, OPTIONS"],
    ["GET", `${JOB_PATH}/auth-dry-run`, "POST, OPTIONS"],
    ["POST", `/x402/calls/c_${"0".repeat(32)}`, "GET, HEAD, OPTIONS"],
  ];
  test.each(others)("%s %s is 405, which allows %s", async (method, path, allowed) => {
    const x402 = await fixture.gateway();
    const sent: Sent = { method, path, headers: await x402.pay({ payer: fixture.payer }) };
    const answer = await send(x402.address, sent);
    expect(answer.status).toBe(405);
    expect(answer.headers.allow).toBe(allowed);
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  });

  test("health is text, and a call that nobody paid for is 404", async () => {
    const x402 = await fixture.gateway();
    const health = await send(x402.address, { method: "GET", path: "/x402/health" });
    expect([health.status, health.text]).toEqual([200, "ok"]);
    const call = await send(x402.address, { method: "GET", path: `/x402/calls/c_${"0".repeat(32)}` });
    expect(call.status).toBe(404);
  });
});
