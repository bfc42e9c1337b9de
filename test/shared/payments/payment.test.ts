import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { PERMIT2 } from "../../../shared/chain/permit2.ts";
import { paymentCallId } from "../../../shared/payments/payment.ts";

const payment = {
  chainId: 8453,
  method: "eip3009",
  asset: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
  payer: "0x857b06519E91e3A54538791bDbb0E22373e36b66",
  nonce: "0xF3746613c2d920b5fdabc0856f2aeb2d4f88ee6037b8cc5d04a71a4462f13480",
} as const;
const ID = "c_1a3a4baa1efc3cc127ceede803913a93";

test("a payment's call id equals the vector in docs/payments.md, in any letter case of its addresses and nonce", () => {
  const page = readFileSync(new URL("../../../docs/payments.md", import.meta.url), "utf8");
  const { chainId, asset, payer, nonce } = payment;
  const parts = [String(chainId), asset, payer, nonce].map((part) => part.toLowerCase());
  expect(page).toContain(
    `\`${ID}\` is made of\n\`${parts.map((part) => `${part.length}:${part}`).join("")}\``,
  );
  expect(paymentCallId(payment)).toBe(ID);
  // The first digits of the SHA-256 of "42:" and the payer in lower case.
  expect(ID.slice(2, 5)).toBe("1a3");
  expect(paymentCallId({ ...payment, payer: payer.toLowerCase(), nonce: nonce.toLowerCase() })).toBe(ID);
});

test("Permit2 payments with the same nonce are one call for all tokens, because the id has Permit2's address and not the token's", () => {
  const byPermit2 = { ...payment, method: "permit2" } as const;
  const otherToken = { ...byPermit2, asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e" };
  expect(paymentCallId(byPermit2)).toBe("c_1a3886136f8874f55e8a4be71ffd4a21");
  expect(paymentCallId(otherToken)).toBe(paymentCallId(byPermit2));
  expect(paymentCallId({ ...payment, asset: PERMIT2 })).toBe(paymentCallId(byPermit2));
});

test.each([
  { chainId: 8454 },
  { asset: "0x036CbD53842c5426634e7929541eC2318f3dCF7e" },
  { payer: `0x${"1".repeat(40)}` },
  { nonce: `0x${"1".repeat(64)}` },
])("a payment with another part is another call: %o", (other) => {
  expect(paymentCallId({ ...payment, ...other })).not.toBe(ID);
});
