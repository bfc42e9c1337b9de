import { describe, expect, test } from "vitest";
import type { FaultOrder } from "../../../../services/devnet/faults.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import type { TestX402 } from "../../../fixtures/x402.ts";
import { PRICE, useX402 } from "../../../fixtures/x402.ts";
import type { Answer } from "../../../support/http.ts";

const fixture = useX402();

/** Neither paid nor refused: the same payment is to come again, and where to look meanwhile. */
function expectUnknown(answer: Answer): void {
  expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.outcome_unknown"]);
  expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
  expect(answer.headers["payment-required"]).toBeUndefined();
  expect(answer.json()["accepts"]).toBeUndefined();
  expect(answer.json()["status_url"]).toMatch(/^http:\/\/pay\.test\/x402\/calls\/c_[0-9a-f]{32}$/);
  expect(answer.headers.location).toBe(answer.json()["status_url"]);
}

function paid(x402: TestX402, headers: Record<string, string>): Promise<Answer> {
  return eventually("the same payment is answered with its job", async () => {
    const answer = await x402.post(headers);
    expect([202, 503]).toContain(answer.status);
    return answer.status === 202 ? answer : undefined;
  });
}

const settle = { on: "settle", times: 1 } as const;

/** What the facilitator says, and whether it had done it. */
const landed: Record<string, FaultOrder> = {
  "the reply is lost": { ...settle, kind: "drop", acts: true },
  "the reply is late": { ...settle, kind: "slow", replyDelayMs: 3500 },
  "a 500": { ...settle, kind: "status", status: 500, acts: true },
  "a 502 that is a page": { ...settle, kind: "status", status: 502, body: "<html>", acts: true },
  "a 429": { ...settle, kind: "status", status: 429, retryAfterSecs: 1, acts: true },
  "a 400": { ...settle, kind: "status", status: 400, acts: true },
  "a 402": { ...settle, kind: "status", status: 402, body: '{"success":false}', acts: true },
  "no JSON": { ...settle, kind: "not_json", acts: true },
  "a redirect": { ...settle, kind: "redirect", acts: true },
  "more than is read": { ...settle, kind: "huge", acts: true },
  settlement_pending: { ...settle, kind: "pending", landsAfterMs: 300 },
  "success: false": { ...settle, kind: "refuse", acts: true },
  insufficient_funds: { ...settle, kind: "refuse", reason: "insufficient_funds", acts: true },
};

describe("a settle whose answer is no success is unknown, and charged once if it landed", () => {
  test.each(Object.entries(landed))("%s", async (_name, fault) => {
    const x402 = await fixture.gateway();
    const headers = await x402.pay({ payer: fixture.payer });
    await fixture.devnet.control.fault(fault);
    expectUnknown(await x402.post(headers));
    const answer = await paid(x402, headers);
    expect(answer.headers["idempotent-replayed"]).toBe("true");
    expect(await fixture.charged()).toEqual([PRICE]);
    const [transfer] = (await fixture.devnet.chain.transfers(fixture.devnet.seller)).slice(-1);
    expect(answer.json()["transaction"]).toBe(transfer?.transaction);
  });

  test("and if it did not land, it is settled again by the gateway itself", async () => {
    const x402 = await fixture.gateway();
    const headers = await x402.payV1({ payer: fixture.payer });
    await fixture.devnet.control.fault({ ...settle, kind: "drop" });
    expectUnknown(await x402.post(headers));
    await eventually("the job is queued though nobody asks", async () => (await x402.waiting()).length === 1);
    expect((await fixture.asked()).settle).toBe(2);
    const answer = await paid(x402, headers);
    expect(answer.headers["x-payment-response"]).toBeDefined();
    expect(await fixture.charged()).toEqual([PRICE]);
  });

  test("a repeat with another body is 409 while nobody knows", async () => {
    const x402 = await fixture.gateway();
    const headers = await x402.pay({ payer: fixture.payer });
    await fixture.devnet.control.fault({ ...settle, kind: "refuse" });
    expectUnknown(await x402.post(headers));
    expect((await x402.post(headers, { body: "other" })).status).toBe(409);
    await paid(x402, headers);
  });
});

test("who has as many open payments as are allowed must wait, and is not charged for more", async () => {
  const x402 = await fixture.gateway({ x402: { open_payments_per_payer: 2, settle_timeout_secs: 3 } });
  const payments = await Promise.all([1, 2, 3].map(() => x402.pay({ payer: fixture.payer })));
  await fixture.devnet.control.fault({ on: "settle", kind: "status", status: 500 });
  for (const headers of payments.slice(0, 2)) expectUnknown(await x402.post(headers));
  const third = payments[2] as Record<string, string>;
  const answer = await x402.post(third);
  expect([answer.status, answer.json()["code"]]).toEqual([429, "payment.too_many_open"]);
  expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
  expect(answer.headers["payment-required"]).toBeUndefined();

  await fixture.devnet.control.clearFaults();
  await paid(x402, payments[0] as Record<string, string>);
  await eventually("there is room again", async () => (await x402.post(third)).status === 202);
  await paid(x402, payments[1] as Record<string, string>);
  expect(await fixture.charged()).toEqual([PRICE, PRICE, PRICE]);
});

describe("a facilitator that does not verify keeps nothing", () => {
  const verify = { on: "verify" } as const;
  const away: Record<string, FaultOrder> = {
    "no reply": { ...verify, kind: "drop" },
    "a 500": { ...verify, kind: "status", status: 500 },
    "a 429": { ...verify, kind: "status", status: 429, retryAfterSecs: 7 },
    "no JSON": { ...verify, kind: "not_json" },
    "a redirect": { ...verify, kind: "redirect" },
    "more than is read": { ...verify, kind: "huge" },
  };
  test.each(Object.entries(away))(
    "%s is 503, and the same payment is taken afterwards",
    async (_name, fault) => {
      const x402 = await fixture.gateway();
      const headers = await x402.pay({ payer: fixture.payer });
      await fixture.devnet.control.fault(fault);
      const answer = await x402.post(headers);
      expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.unavailable"]);
      expect(Number(answer.headers["retry-after"])).toBe(
        fault.kind === "status" && fault.status === 429 ? 7 : 2,
      );
      expect(answer.headers["payment-required"]).toBeUndefined();
      expect(answer.json()["status_url"]).toBeUndefined();
      expect((await fixture.asked()).settle).toBe(0);
      await fixture.devnet.control.clearFaults();
      expect((await x402.post(headers)).status).toBe(202);
    },
  );

  test("one that is away from the start: 402s are sent, payments are 503, and it is found when it comes", async () => {
    await fixture.devnet.control.fault({ on: "supported", kind: "status", status: 503 });
    const x402 = await fixture.gateway({ early: true });
    await eventually("it takes calls", () => x402.gateway.readiness().ready);
    const headers = await x402.pay({ payer: fixture.payer });
    const answer = await x402.post(headers);
    expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.unavailable"]);
    await fixture.devnet.control.clearFaults();
    await eventually("it is taken", async () => (await x402.post(headers)).status === 202);
  });

  test("its refusal is the payer's to know: 402, and nothing is charged", async () => {
    const x402 = await fixture.gateway();
    const headers = await x402.pay({ payer: fixture.payer });
    await fixture.devnet.control.fault({ ...verify, kind: "refuse", reason: "insufficient_funds" });
    const answer = await x402.post(headers);
    expect([answer.status, answer.json()["code"]]).toEqual([402, "payment.rejected"]);
    expect(answer.headers["payment-required"]).toBeDefined();
    expect(await fixture.asked()).toEqual({ verify: 1, settle: 0 });
  });
});
