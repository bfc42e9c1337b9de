import type { PaymentRequired, PaymentRequirements } from "@x402/core/types";
import { generatePrivateKey } from "viem/accounts";
import { expect, test } from "vitest";
import { createPayer } from "../../../../services/cli/pay/payer.ts";
import { payerKey } from "../../../../services/cli/payer-key.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import { runHere } from "../run-here.ts";

const payer = createPayer(new Secret(generatePrivateKey()));
const USDC = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
const OTHER = `0x${"aB".repeat(20)}`;

function asked(...offers: Partial<PaymentRequirements>[]): PaymentRequired {
  const accepts = offers.map((offer) => ({
    scheme: "exact",
    network: "eip155:84532" as const,
    asset: USDC,
    amount: "1000000",
    payTo: `0x${"11".repeat(20)}`,
    maxTimeoutSeconds: 120,
    extra: { name: "USDC", version: "2" },
    ...offer,
  }));
  return { x402Version: 2, resource: { url: "http://x/" }, accepts };
}

const chosen = (required: PaymentRequired, max = "1", tokens = {}) => payer.choose(required, { max, tokens });

test("the first offer within the cap is chosen, exact to the smallest unit", () => {
  const [dear, fits] = [{ amount: "1000001" }, { amount: "1000000", maxTimeoutSeconds: 60 }];
  expect(chosen(asked(dear, fits))).toMatchObject({ offer: fits, text: "1 USDC", cap: 1_000_000n });
  expect(() => chosen(asked(dear, dear))).toThrow("1.000001 USDC or 1.000001 USDC, over --max 1;");
});

test.each<[string, Partial<PaymentRequirements>]>([
  ["in a token with unknown decimals", { asset: OTHER }],
  ["by another method", { extra: { assetTransferMethod: "allowance" } }],
  ["of another scheme", { scheme: "upto" }],
  ["on another kind of chain", { network: "solana:mainnet" }],
  ["whose signature would be good for a year", { maxTimeoutSeconds: 31_536_000 }],
  ["with an amount that is not an integer", { amount: "1.5" }],
])("an offer %s is not paid", (_, offer) => {
  expect(() => chosen(asked(offer))).toThrow("none of the offers can be paid");
});

test("a token with given decimals is priced by them, and its payment is signed", async () => {
  const required = asked({ asset: OTHER, amount: "1500000000000000000", extra: { name: "X", version: "1" } });
  const tokens = { [OTHER.toLowerCase()]: 18 };
  expect(() => chosen(required, "1.4", tokens)).toThrow("over --max 1.4");
  const price = chosen(required, "1.5", tokens);
  expect(price.text).toBe(`1.5 of ${OTHER}`);
  const { headers, validBefore } = await payer.sign(required, price);
  const header = Buffer.from(headers["PAYMENT-SIGNATURE"] ?? "", "base64").toString();
  expect(JSON.parse(header)).toMatchObject({ accepted: { asset: OTHER, amount: "1500000000000000000" } });
  expect(validBefore).toBeLessThanOrEqual(Date.now() / 1000 + 121);
});

test("an offer in a token with fewer decimals than the cap is over the cap, and does not hide other offers", () => {
  const tokens = { [OTHER.toLowerCase()]: 0 };
  const [coarse, fine] = [{ asset: OTHER, amount: "1" }, { amount: "250000" }];
  expect(chosen(asked(coarse, fine), "0.25", tokens)).toMatchObject({ offer: fine, cap: 250_000n });
  expect(chosen(asked(coarse, fine), "1.75", tokens)).toMatchObject({ offer: coarse, cap: 1n });
  expect(() => chosen(asked(coarse), "0.25", tokens)).toThrow(`the price is 1 of ${OTHER}, over --max 0.25;`);
});

test("the x402 client itself refuses an amount over the cap", async () => {
  const required = asked({});
  const price = { ...chosen(required), cap: 999_999n };
  await expect(payer.sign(required, price)).rejects.toThrow("maxAmountPerPayment");
});

test.each(["", "0x12", `0x${"0".repeat(64)}`, "f".repeat(64)])(
  "postern pay exits with 3 and sends no request if the environment contains the key %j",
  async (key) => {
    const ran = await runHere(["pay", "http://127.0.0.1:1/"], { POSTERN_PAYER_KEY: key });
    const reason = key === "" ? "POSTERN_PAYER_KEY is not set; it must be" : "POSTERN_PAYER_KEY must be";
    expect(ran).toMatchObject({ code: 3, stdout: "", stderr: expect.stringContaining(reason) });
  },
);

test("postern pay signs for the same address whether or not its key begins with 0x", () => {
  const key = generatePrivateKey();
  const addressOf = (text: string) => {
    const read = payerKey({ POSTERN_PAYER_KEY: text });
    return read && createPayer(read).address;
  };
  expect(addressOf(key)).toMatch(/^0x[0-9a-fA-F]{40}$/);
  expect(addressOf(key.slice(2))).toBe(addressOf(key));
});
