import { describe, expect, test } from "vitest";
import { JOB_PATH, PRICE, type TestX402, type TestX402Options, useX402 } from "../../../../fixtures/x402.ts";
import { newPayer } from "../../../../support/devnet.ts";

const fixture = useX402();
const DRY_RUN = `${JOB_PATH}/auth-dry-run`;
const policies = [{ service_id: 1, job_index: 8, invocation_mode: "disabled" }];
const prices = { "7": "1000000000000000", "8": "1000000000000000" };

type Request = { headers: Record<string, string>; path?: string; body?: string };
type Case = { options?: Partial<TestX402Options>; request: (x402: TestX402) => Promise<Request> };

const bought = async (x402: TestX402): Promise<Record<string, string>> => {
  const headers = await x402.pay({ payer: fixture.payer });
  expect((await x402.post(headers)).status).toBe(202);
  return headers;
};

/** Each is refused, and by both routes alike. */
const refused: Record<string, Case> = {
  "a known payment with another body": {
    request: async (x402) => ({ headers: await bought(x402), body: "other" }),
  },
  "a payer without money": {
    request: async (x402) => ({ headers: await x402.pay({ payer: await newPayer(fixture.devnet, 0n) }) }),
  },
  "a payment header that is none": { request: async () => ({ headers: { "PAYMENT-SIGNATURE": "AAAA" } }) },
  "a payment header that is none, for a disabled job": {
    request: async () => ({ headers: { "PAYMENT-SIGNATURE": "AAAA" }, path: "/x402/jobs/1/8" }),
  },
  "a payment header that is none, for a job that is not sold": {
    request: async () => ({ headers: { "X-PAYMENT": "AAAA" }, path: "/x402/jobs/1/9" }),
  },
  "a payment for a disabled job": {
    request: async (x402) => ({ headers: await x402.pay({ payer: fixture.payer }), path: "/x402/jobs/1/8" }),
  },
  "a body in a content coding": {
    request: async (x402) => ({
      headers: { ...(await x402.pay({ payer: fixture.payer })), "Content-Encoding": "gzip" },
    }),
  },
  "a payer with as many open payments as are allowed": {
    options: { x402: { open_payments_per_payer: 1, settle_timeout_secs: 1 } },
    request: async (x402) => {
      await fixture.devnet.control.fault({ on: "settle", kind: "drop" });
      expect((await x402.post(await x402.pay({ payer: fixture.payer }))).status).toBe(503);
      return { headers: await x402.pay({ payer: fixture.payer }) };
    },
  },
};

describe("a dry-run is refused as the paid request would be, and charges nothing", () => {
  test.each(Object.entries(refused))("%s", async (_name, { options = {}, request }) => {
    const x402 = await fixture.gateway({
      prices,
      ...options,
      x402: { job_policies: policies, ...options.x402 },
    });
    const { headers, path = JOB_PATH, body = "hello" } = await request(x402);
    const dry = await x402.post(headers, { path: `${path}/auth-dry-run`, body });
    const paid = await x402.post(headers, { path, body });
    expect(dry.status).toBeGreaterThanOrEqual(400);
    expect([dry.status, dry.json()["code"]]).toEqual([paid.status, paid.json()["code"]]);
    await fixture.devnet.control.clearFaults();
  });
});

test("a payment that would be taken is allowed, as often as it is asked, and then bought", async () => {
  const x402 = await fixture.gateway();
  const headers = await x402.pay({ payer: fixture.payer });
  for (let i = 0; i < 2; i++) {
    expect((await x402.post(headers, { path: DRY_RUN })).json()).toEqual({
      allowed: true,
      mode: "public_paid",
    });
  }
  expect((await fixture.asked()).settle).toBe(0);
  expect((await x402.post(headers)).status).toBe(202);
  expect((await x402.post(headers, { path: DRY_RUN })).json()).toMatchObject({ allowed: true });
  expect(await fixture.charged()).toEqual([PRICE]);
});
