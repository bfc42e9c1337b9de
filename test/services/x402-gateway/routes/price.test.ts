import { describe, expect, test } from "vitest";
import { JOB_PATH, PUBLIC_URL, useX402 } from "../../../fixtures/x402.ts";
import { send } from "../../../support/http.ts";
import { rateless } from "../rateless.ts";
import { BY_PAYER, restrictedJobs } from "../restricted-jobs.ts";
import { ASSET_18, twoTokens } from "../two-tokens.ts";

const fixture = useX402();

describe("200", () => {
  test("a job's price is given in wei and in each token, with an endpoint at the public URL", async () => {
    const x402 = await fixture.gateway({ x402: twoTokens(fixture.devnet), early: true });
    const headers = { Host: "evil.test", "X-Forwarded-Host": "evil.test" };
    const answer = await send(x402.address, { method: "GET", path: `${JOB_PATH}/price`, headers });
    const { network, token, seller } = fixture.devnet;
    const common = {
      protocol: "x402",
      pay_to: seller,
      scheme: "exact",
      x402_endpoint: `${PUBLIC_URL}${JOB_PATH}`,
    };
    expect(answer.status).toBe(200);
    expect(answer.json()).toEqual({
      service_id: 1,
      job_index: 7,
      price_wei: "1000000000000000",
      settlement_options: [
        { ...common, network, asset: token, symbol: "USDC", amount: "3200000" },
        { ...common, network: "eip155:31337", asset: ASSET_18, symbol: "DAY", amount: "3200000000000000000" },
      ],
      policy: "public_paid",
    });
  });

  test("the price of a job for permitted callers names that policy", async () => {
    const { prices, x402: settings } = restrictedJobs(fixture.devnet);
    const x402 = await fixture.gateway({ prices, x402: settings });
    const answer = await send(x402.address, { method: "GET", path: `${BY_PAYER}/price` });
    expect(answer.json()["policy"]).toBe("restricted_paid");
  });
});

describe("403", () => {
  test("the answer for the price of a disabled job is 403, names the job and has no price or payment option", async () => {
    const job_policies = [{ service_id: 1, job_index: 7, invocation_mode: "disabled" }];
    const x402 = await fixture.gateway({ x402: { job_policies } });
    const answer = await send(x402.address, { method: "GET", path: `${JOB_PATH}/price` });
    expect(answer.status).toBe(403);
    expect(answer.json()).toMatchObject({ code: "job.disabled", service_id: 1, job_index: 7 });
    expect(answer.text).not.toMatch(/settlement_options|price_wei|pay_to/);
  });
});

describe("404", () => {
  test("the price of a job without a price is 404, and the answer names the job", async () => {
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
});

describe("405", () => {
  test("POST to a job's price is 405 even with a payment, which stays unused, and allows GET, HEAD and OPTIONS", async () => {
    const x402 = await fixture.gateway();
    const headers = await x402.pay({ payer: fixture.payer });
    const answer = await send(x402.address, { path: `${JOB_PATH}/price`, headers });
    expect([answer.status, answer.headers.allow]).toEqual([405, "GET, HEAD, OPTIONS"]);
    expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  });
});

describe("503", () => {
  test("the price of a job is 503 while no token has a rate", async () => {
    const x402 = await fixture.gateway({ token: rateless });
    const answer = await send(x402.address, { method: "GET", path: `${JOB_PATH}/price` });
    expect([answer.status, answer.json()["code"]]).toEqual([503, "price.unavailable"]);
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
  });
});
