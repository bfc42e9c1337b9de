import { describe, expect, test } from "vitest";
import { refusalOf, useOperator } from "../../../fixtures/console.ts";
import { usePayments } from "../../../fixtures/payments.ts";

describe("200", () => {
  const payments = usePayments();
  const fixture = useOperator({ redis: payments.redis });

  test("a payment whose authorization a stranger has used first is listed with the evidence of the chain, page by page", async () => {
    const ids: string[] = [];
    for (let i = 0; i < 2; i++) {
      const headers = await payments.gateway.pay({ payer: payments.payer });
      const signed = JSON.parse(Buffer.from(headers["PAYMENT-SIGNATURE"] ?? "", "base64").toString());
      await payments.devnet.chain.frontRun(signed.payload);
      expect((await payments.gateway.post(headers)).status).toBe(409);
    }
    const { get } = await fixture.start({ configDir: payments.postern.configDir });
    let path = "/api/v1/payments/spent-elsewhere?limit=1";
    for (;;) {
      const answer = await get(path, { as: "viewer" });
      expect(answer.status).toBe(200);
      const { payments: found, next } = answer.json<{
        payments: Record<string, unknown>[];
        next: string | null;
      }>();
      for (const payment of found) {
        expect(payment).toMatchObject({
          ...{ payer: payments.payer.address.toLowerCase(), amount: "3200000", decimals: 6, paid: true },
          ...{
            transaction: expect.stringMatching(/^0x/),
            chain: expect.stringContaining("paid to you in 0x"),
          },
        });
        ids.push(String(payment["call_id"]));
      }
      if (next === null) break;
      path = `/api/v1/payments/spent-elsewhere?limit=1&cursor=${next}`;
    }
    expect(new Set(ids).size).toBe(2);
  });
});

describe("409", () => {
  const fixture = useOperator();

  test("without the tokens' configuration such payments cannot be listed: 409", async () => {
    const { get } = await fixture.start();
    const refused = await get("/api/v1/payments/spent-elsewhere");
    expect(refusalOf(refused)).toEqual([409, "token.unconfigured"]);
  });
});
