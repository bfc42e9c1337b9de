import { describe, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { PRICE, requiredIn, type TestX402Options, useX402 } from "../../../fixtures/x402.ts";

const fixture = useX402();
const trusting: Partial<TestX402Options> = {
  x402: { trust_facilitator: true },
  token: { rpc_url: undefined as never },
  early: true,
};

async function ready(options: Partial<TestX402Options> = {}) {
  const x402 = await fixture.gateway({ ...trusting, ...options });
  await eventually("its facilitator is known", () => {
    const { ready: isReady, checks } = x402.gateway.readiness();
    return isReady && (checks["facilitators"] as { ok: boolean }[]).every(({ ok }) => ok);
  });
  return x402;
}

describe("where the facilitator's word is the last", () => {
  test("that is said by /readyz, and a payment is taken", async () => {
    const x402 = await ready();
    expect(x402.gateway.readiness().checks["trust_facilitator"]).toBe(true);
    expect((await x402.post(await x402.pay({ payer: fixture.payer }))).status).toBe(202);
    expect(await fixture.charged()).toEqual([PRICE]);
  });

  test("its refusal to settle is a refusal, once it is on disk", async () => {
    const x402 = await ready();
    const headers = await x402.pay({ payer: fixture.payer });
    await fixture.devnet.control.fault({
      on: "settle",
      kind: "refuse",
      reason: "insufficient_funds",
      times: 1,
    });
    const answer = await x402.post(headers);
    expect([answer.status, answer.json()["code"]]).toEqual([402, "payment.rejected"]);
    expect(requiredIn(answer).accepts).toHaveLength(1);
    const again = await x402.post(headers);
    expect([again.status, again.json()["code"]]).toEqual([402, "payment.void"]);
    expect(await fixture.asked()).toEqual({ verify: 1, settle: 1 });
  });

  test.each(["invalid_exact_evm_nonce_already_used", "invalid_transaction_state", "unexpected_settle_error"])(
    "but %s is no refusal: the money may have moved",
    async (reason) => {
      const x402 = await ready();
      const headers = await x402.pay({ payer: fixture.payer });
      await fixture.devnet.control.fault({ on: "settle", kind: "refuse", reason, times: 1 });
      const answer = await x402.post(headers);
      expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.outcome_unknown"]);
      await eventually("its job", async () => (await x402.post(headers)).status === 202);
    },
  );

  test("no answer is none: it is asked again", async () => {
    const x402 = await ready();
    const headers = await x402.pay({ payer: fixture.payer });
    await fixture.devnet.control.fault({ on: "settle", kind: "drop", times: 1 });
    expect((await x402.post(headers)).status).toBe(503);
    await eventually("its job", async () => (await x402.post(headers)).status === 202);
    expect(await fixture.charged()).toEqual([PRICE]);
  });

  test("what it never says is an operator's to decide, and stays 503", async () => {
    let ahead = 0;
    const x402 = await ready({ clock: () => Date.now() + ahead });
    const headers = await x402.pay({ payer: fixture.payer });
    await fixture.devnet.control.fault({ on: "settle", kind: "drop" });
    expect((await x402.post(headers)).status).toBe(503);
    const answer = await eventually("it is in review", async () => {
      ahead += 60_000;
      const said = await x402.post(headers);
      expect([said.status, said.headers["payment-required"]]).toEqual([503, undefined]);
      return said.json()["code"] === "payment.in_review" ? said : undefined;
    });
    expect(answer.json()["status_url"]).toBeDefined();
    expect(x402.log.events.some(({ event }) => event === "payment.in_review")).toBe(true);
    expect(await x402.waiting()).toEqual([]);
  });
});
