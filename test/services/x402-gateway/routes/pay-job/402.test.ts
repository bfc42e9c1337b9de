import type { PaymentRequirements } from "@x402/core/types";
import { describe, expect, test } from "vitest";
import { idIn, inTime, requiredIn, type TestX402, useX402 } from "../../../../fixtures/x402.ts";
import type { Answer } from "../../../../support/http.ts";
import { signedIn, signPayment } from "../../../../support/sign-payment.ts";

const fixture = useX402();
const OTHER = "0x2222222222222222222222222222222222222222";
const now = () => BigInt(Math.floor(Date.now() / 1000));

/** A 402 that says why, and offers the job again. */
function expectRefused(answer: Answer, code: string): void {
  expect([answer.status, answer.json()["code"]]).toEqual([402, code]);
  expect(requiredIn(answer).error).toMatch(new RegExp(`^${code}: `));
  expect(requiredIn(answer).accepts).toHaveLength(1);
}

describe("a payment that is wrong by itself", () => {
  const payWith = (choice: object) => (x402: TestX402) => x402.pay({ payer: fixture.payer, ...choice });
  const wrong: Record<string, [(x402: TestX402) => Promise<Record<string, string>>, string]> = {
    "does not read": [async () => ({ "PAYMENT-SIGNATURE": "AAAA" }), "payment.malformed"],
    "pays somebody else": [payWith({ to: OTHER }), "payment.not_offered"],
    "lasts for a year": [payWith({ validBefore: now() + 31_536_000n }), "payment.window_unusable"],
    "is signed for another token": [payWith({ name: "USD Coin" }), "payment.signature_invalid"],
    "pays a quote that has expired": [
      async (x402) => {
        const offer = (await x402.ask()).v2.accepts[0] as PaymentRequirements;
        x402.skip(41_000);
        const choice = { payer: fixture.payer, validBefore: now() + 160n };
        return { "PAYMENT-SIGNATURE": (await signPayment(offer, choice)).header };
      },
      "payment.quote_expired",
    ],
  };
  test.each(Object.entries(wrong))(
    "a payment that %s is refused with 402 and a new offer, and no facilitator is asked",
    async (_what, [pay, code]) => {
      const x402 = await fixture.gateway({ x402: { quote_ttl_secs: 30 } });
      expectRefused(await x402.post(await pay(x402)), code);
      expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
      expect(await fixture.charged()).toEqual([]);
    },
  );
});

test("the new offer in the 402 for an expired quote can be paid", async () => {
  const x402 = await fixture.gateway({ x402: { quote_ttl_secs: 30 } });
  const [offer] = (await x402.ask()).v2.accepts;
  x402.skip(41_000);
  const later = { payer: fixture.payer, validBefore: now() + 160n };
  const { header } = await signPayment(offer as PaymentRequirements, later);
  const refused = await x402.post({ "PAYMENT-SIGNATURE": header });
  expectRefused(refused, "payment.quote_expired");
  const [renewed] = requiredIn(refused).accepts;
  const again = await signPayment(renewed as PaymentRequirements, later);
  expect((await x402.post({ "PAYMENT-SIGNATURE": again.header })).status).toBe(202);
});

test("a payment that the facilitator refuses is refused with 402, its reason is told, and nothing is settled", async () => {
  const x402 = await fixture.gateway();
  const headers = await x402.pay({ payer: fixture.payer });
  await fixture.devnet.control.fault({ on: "verify", kind: "refuse", reason: "insufficient_funds" });
  const answer = await x402.post(headers);
  expectRefused(answer, "payment.rejected");
  expect(answer.json()["detail"]).toContain("insufficient_funds");
  expect(await fixture.asked()).toEqual({ verify: 1, settle: 0 });
});

test.each(["pay", "payV1"] as const)(
  "a payer without the money is refused with 402 before anything is claimed (%s)",
  async (pay) => {
    const x402 = await fixture.gateway({ prices: { "7": "1000000000000000000000" } });
    const answer = await x402.post(await x402[pay]({ payer: fixture.payer }));
    expectRefused(answer, "payment.rejected");
    expect(answer.json()["detail"]).toMatch(/insufficient_(funds|balance)/);
    expect((await fixture.asked()).settle).toBe(0);
  },
);

test("a payment that is void is refused with 402 and a new offer, which can be paid", async () => {
  const x402 = await fixture.gateway();
  const headers = await x402.pay({ payer: fixture.payer });
  await fixture.devnet.control.fault({ on: "settle", kind: "drop", times: 1 });
  const { nonce } = signedIn(headers).authorization;
  const open = await x402.post(headers);
  await fixture.devnet.chain.cancelAuthorization(fixture.payer, nonce);
  await fixture.devnet.chain.finalize();
  expect(open.status).toBe(503);
  await x402.untilState(idIn(open), "VOID");
  const answer = await x402.post(headers);
  expectRefused(answer, "payment.void");
  const [renewed] = requiredIn(answer).accepts;
  const { header } = await signPayment(renewed as PaymentRequirements, inTime({ payer: fixture.payer }));
  expect((await x402.post({ "PAYMENT-SIGNATURE": header })).status).toBe(202);
});
