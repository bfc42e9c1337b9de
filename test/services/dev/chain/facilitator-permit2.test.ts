import type { PaymentPayload } from "@x402/core/types";
import { expect, test } from "vitest";
import type { Hex } from "../../../../services/dev/chain/chain.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { newPayer } from "../../../support/devnet.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import {
  type Permit2PaymentChoice,
  type SignedPermit2,
  signPermit2Payment,
} from "../../../support/permit2.ts";
import { encodeHeader, type Payer } from "../../../support/sign-payment.ts";
import { newWallet } from "../../../support/wallets.ts";
import { PRICE, useFacilitator } from "./use-facilitator.ts";

const { devnet, permit2Requirements, verify, settle, paid, signedByClient } = useFacilitator();

type Symbol = "usdt" | "dai";

/** Gives a payer tokens. With `approved`, Permit2 may move them. */
async function ready<Kind extends Payer>(payer: Kind, symbol: Symbol, approved = true): Promise<Kind> {
  const token = devnet.permit2Tokens[symbol];
  await devnet.chain.mint(payer.address, 10n * PRICE, token);
  if (approved) await devnet.chain.permit2.approve(payer, token);
  return payer;
}

async function usdtPayment(choice: Partial<Permit2PaymentChoice> = {}) {
  const payer = choice.payer ?? (await ready(await newPayer(devnet, 0n), "usdt"));
  const terms = permit2Requirements("usdt");
  return { payer, terms, ...(await signPermit2Payment(terms, { ...choice, payer })) };
}

const paidUsdt = (payer: Payer) => paid(payer, devnet.permit2Tokens.usdt);

const PAYERS = [
  ["usdt", "a key", () => newPayer(devnet, 0n)],
  ["dai", "a wallet", () => newWallet(devnet, { tokens: 0n })],
  ["dai", "a key", () => newPayer(devnet, 0n)],
  ["usdt", "a wallet", () => newWallet(devnet, { tokens: 0n })],
] as const;

test.each(sample(PAYERS, 2))(
  "the facilitator settles a payment in %s that the official client signs for %s",
  async (symbol, _who, make) => {
    const payer = await ready(await make(), symbol);
    const terms = permit2Requirements(symbol);
    const payload = await signedByClient(payer, terms);
    expect(await verify(payload, terms)).toEqual({ isValid: true, payer: payer.address });
    const settled = await settle(payload, terms);
    expect(settled).toMatchObject({ success: true, network: devnet.network, payer: payer.address });
    const charges = await paid(payer, devnet.permit2Tokens[symbol]);
    expect(charges).toMatchObject([{ value: PRICE, transaction: settled.transaction }]);
  },
);

test("the tests' own Permit2 payments have the same form as those of the official client", async () => {
  const terms = permit2Requirements("usdt");
  const { payer, payload, header } = await usdtPayment();
  const sent = JSON.stringify(await signedByClient(payer, terms));
  const official = JSON.parse(sent) as PaymentPayload;
  const form = (value: unknown): unknown =>
    typeof value === "object" && value !== null
      ? Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, form(inner)]))
      : typeof value;
  const { resource, ...rest } = official;
  expect(resource).toBeDefined();
  expect(form(payload)).toEqual(form(rest));
  const own = payload.payload as SignedPermit2;
  const theirs = official.payload as SignedPermit2;
  const { nonce: _nonce, deadline: _deadline, ...same } = theirs.permit2Authorization;
  expect(own.permit2Authorization).toMatchObject(same);
  expect(theirs.permit2Authorization.nonce).toMatch(/^[0-9]+$/);
  expect(header).toBe(encodeHeader(payload));
});

test("the facilitator refuses a payment for which Permit2 has no allowance, until it has one", async () => {
  const payer = await ready(await newPayer(devnet, 0n), "usdt", false);
  const { payload, terms } = await usdtPayment({ payer });
  expect(await verify(payload, terms)).toMatchObject({
    isValid: false,
    invalidReason: "permit2_allowance_required",
  });
  expect(await settle(payload, terms)).toMatchObject({ success: false, transaction: "" });
  expect(await paidUsdt(payer)).toEqual([]);
  await devnet.chain.permit2.approve(payer, devnet.permit2Tokens.usdt);
  expect(await verify(payload, terms)).toMatchObject({ isValid: true });
});

const REFUSED: readonly [string, string, Partial<Permit2PaymentChoice>][] = [
  [
    "to another recipient",
    "invalid_permit2_recipient_mismatch",
    { to: "0x00000000000000000000000000000000000000aa" },
  ],
  ["of another amount", "permit2_amount_mismatch", { value: PRICE + 1n }],
  [
    "for another spender",
    "invalid_permit2_spender",
    { spender: "0xcA11bde05977b3631167028862bE2a173976CA11" },
  ],
  ["after its deadline", "permit2_deadline_expired", { deadline: 1000n }],
  ["before its time", "permit2_not_yet_valid", { validAfter: 4_000_000_000n }],
  ["signed for another chain", "invalid_permit2_signature", { chainId: 1 }],
];

test.each(sample(REFUSED))(
  "the facilitator refuses a Permit2 payment %s with %s",
  async (_what, reason, choice) => {
    const { payload, terms, payer } = await usdtPayment(choice);
    expect(await verify(payload, terms)).toMatchObject({ isValid: false, invalidReason: reason });
    expect(await settle(payload, terms)).toMatchObject({ success: false, errorReason: reason });
    expect(await paidUsdt(payer)).toEqual([]);
  },
);

onlyInLongRun(() => {
  test("the facilitator refuses a Permit2 payment whose nonce its owner has invalidated", async () => {
    const { payload, terms, payer, signed } = await usdtPayment();
    await devnet.chain.permit2.invalidate(payer, BigInt(signed.permit2Authorization.nonce));
    expect(await verify(payload, terms)).toMatchObject({
      isValid: false,
      invalidReason: "permit2_simulation_failed",
    });
    expect(await settle(payload, terms)).toMatchObject({ success: false, transaction: "" });
    expect(await paidUsdt(payer)).toEqual([]);
  });

  test("a third party that pays a higher fee settles a Permit2 payment before the facilitator, whose settle fails", async () => {
    const { payload, terms, payer, signed } = await usdtPayment();
    const { chain } = devnet;
    await chain.pauseMining();
    try {
      const settling = settle(payload, terms);
      await eventually(
        "the facilitator's transaction waits",
        async () => (await chain.client.getTxpoolStatus()).pending,
      );
      const transaction = await chain.permit2.settle(signed, { suffix: "0xbeef", pending: true });
      await chain.mine();
      expect(await settling).toMatchObject({ success: false });
      expect(await paidUsdt(payer)).toMatchObject([{ transaction }]);
    } finally {
      await chain.resumeMining();
    }
  });

  test("a delayed Permit2 transaction has the announced hash, and a second settle waits for it", async () => {
    const { payload, terms, payer } = await usdtPayment();
    await devnet.control.fault({ on: "settle", kind: "pending", landsAfterMs: 300, times: 1 });
    const first = await settle(payload, terms);
    expect(first).toMatchObject({ success: false, errorReason: "settlement_pending", payer: payer.address });
    expect(await paidUsdt(payer)).toEqual([]);
    expect(await settle(payload, terms)).toMatchObject({ success: true, transaction: first.transaction });
    expect(await paidUsdt(payer)).toMatchObject([{ transaction: first.transaction }]);
  });
});

test("the facilitator counts its requests with Permit2 payments by payer, and by nonce as 32 bytes", async () => {
  const { payload, terms, payer } = await usdtPayment({ nonce: 0xabcn });
  await verify(payload, terms);
  const nonce: Hex = `0x${"abc".padStart(64, "0")}`;
  expect((await devnet.control.requests()).requests).toMatchObject([
    { on: "verify", payer: payer.address.toLowerCase(), nonce, x402Version: 2 },
  ]);
});
