import type { PaymentRequirements } from "@x402/core/types";
import { ExactEvmSchemeV1 } from "@x402/evm/exact/v1/client";
import { privateKeyToAccount } from "viem/accounts";
import { expect, test } from "vitest";
import type { DevAccount } from "../../../../services/dev/chain/chain.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { newPayer } from "../../../support/devnet.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { signPayment, signPaymentV1 } from "../../../support/sign-payment.ts";
import { PRICE, useFacilitator } from "./use-facilitator.ts";

const { devnet, requirements, requirementsV1, verify, settle, paid, payment, signedByClient } =
  useFacilitator();

test("the facilitator accepts payments of the official version 2 client", async () => {
  const payer = await newPayer(devnet);
  const payload = await signedByClient(payer);
  expect(await verify(payload)).toEqual({ isValid: true, payer: payer.address });
  const settled = await settle(payload);
  expect(settled).toMatchObject({ success: true, network: devnet.network, payer: payer.address });
  expect(await paid(payer)).toMatchObject([{ value: PRICE, transaction: settled.transaction }]);
});

test("the facilitator accepts payments of the official version 1 client and of the tests' own signer", async () => {
  const payer = await newPayer(devnet);
  const terms = requirementsV1();
  const client = new ExactEvmSchemeV1(privateKeyToAccount(payer.privateKey));
  const payload = await client.createPaymentPayload(1, terms as unknown as PaymentRequirements);
  expect(await verify(payload, terms)).toEqual({ isValid: true, payer: payer.address });
  expect(await settle(payload, terms)).toMatchObject({ success: true, network: "base-sepolia" });
  const { payload: second } = await signPaymentV1(terms, { payer });
  expect(await settle(second, terms)).toMatchObject({ success: true });
  expect(await paid(payer)).toHaveLength(2);
});

test("the facilitator says that it serves both versions", async () => {
  const supported = (await (await fetch(`${devnet.facilitatorUrl}/supported`)).json()) as object;
  expect(supported).toMatchObject({
    kinds: [
      { x402Version: 2, scheme: "exact", network: devnet.network },
      { x402Version: 1, scheme: "exact", network: "base-sepolia" },
    ],
  });
});

test.each([
  ["a body that is no JSON", 400, "/verify", "payment"],
  ["a path that it does not know", 404, "/refund", "{}"],
  ["a body of more than a mebibyte", 413, "/settle", " ".repeat(2 ** 20 + 1)],
  ["a body without a payment", 500, "/verify", "{}"],
])("the facilitator answers %s with %d", async (_what, status, path, body) => {
  const answer = await fetch(`${devnet.facilitatorUrl}${path}`, { method: "POST", body });
  expect(answer.status).toBe(status);
});

const REFUSED: readonly [string, string, (payer: DevAccount) => Promise<object>][] = [
  [
    "a used authorization",
    "invalid_exact_evm_nonce_already_used",
    async (payer) => {
      const { payload } = await signPayment(requirements(), { payer });
      await settle(payload);
      return payload;
    },
  ],
  [
    "a cancelled authorization",
    "invalid_exact_evm_nonce_already_used",
    async (payer) => {
      const { payload, signed } = await signPayment(requirements(), { payer });
      await devnet.chain.cancelAuthorization(payer, signed.authorization.nonce);
      return payload;
    },
  ],
  [
    "too little money",
    "invalid_exact_evm_insufficient_balance",
    async () => (await signPayment(requirements(), { payer: await newPayer(devnet, 1n) })).payload,
  ],
];

test.each(sample(REFUSED))(
  "the facilitator refuses %s with the reason from the token's own revert string",
  async (_case, reason, prepare) => {
    const payload = await prepare(await newPayer(devnet));
    expect(await verify(payload)).toMatchObject({ isValid: false, invalidReason: reason });
    expect(await settle(payload)).toMatchObject({ success: false, errorReason: reason });
  },
);

test("the facilitator refuses a wrong EIP-712 name and a signature of another key", async () => {
  const payer = await newPayer(devnet);
  const named = { ...requirements(), extra: { name: "USD Coin", version: "2" } };
  const { payload } = await signPayment(named, { payer });
  expect(await verify(payload, named)).toMatchObject({
    invalidReason: "invalid_exact_evm_token_name_mismatch",
  });
  const foreign = await signPayment(requirements(), { payer, name: "USD Coin" });
  expect(await verify(foreign.payload)).toMatchObject({ isValid: false });
  expect(await settle(foreign.payload)).toMatchObject({ success: false });
  expect(await paid(payer)).toEqual([]);
});

test("the facilitator answers settlement_pending while no block is made, and success after one", async () => {
  const { payload, payer } = await payment();
  await devnet.chain.pauseMining();
  try {
    const first = await settle(payload);
    expect(first).toMatchObject({ success: false, errorReason: "settlement_pending" });
    expect(await paid(payer)).toEqual([]);
    await devnet.chain.mine();
    expect(await settle(payload)).toMatchObject({ success: true, transaction: first.transaction });
    expect(await paid(payer)).toHaveLength(1);
  } finally {
    await devnet.chain.resumeMining();
  }
});

async function poolSize(): Promise<number> {
  return (await devnet.chain.client.getTxpoolStatus()).pending;
}

onlyInLongRun(() => {
  test("the facilitator settles ten payments at once, and continues after refused ones among them", async () => {
    const spent = await payment();
    await settle(spent.payload);
    const payments = await Promise.all(Array.from({ length: 10 }, payment));
    const [refused, again, ...settled] = await Promise.all([
      settle(spent.payload),
      settle(spent.payload),
      ...payments.map(({ payload }) => settle(payload)),
    ]);
    expect([refused?.success, again?.success]).toEqual([false, false]);
    expect(settled.map(({ success }) => success)).toEqual(payments.map(() => true));
    const after = await payment();
    expect((await settle(after.payload)).success).toBe(true);
  });

  test("the facilitator continues to work after the chain was set back", async () => {
    const before = await devnet.chain.snapshot();
    const { payload, payer } = await payment();
    expect((await settle(payload)).success).toBe(true);
    await devnet.chain.revert(before);
    expect(await paid(payer)).toEqual([]);
    await devnet.chain.mint(payer.address, PRICE);
    expect((await settle(payload)).success).toBe(true);
    expect(await paid(payer)).toHaveLength(1);
  });

  test("a third party that pays a higher fee settles a payment before the facilitator, whose settle fails", async () => {
    const { payload, payer, signed } = await payment();
    await devnet.chain.pauseMining();
    try {
      const settling = settle(payload);
      await eventually("the facilitator's transaction waits", poolSize);
      const transaction = await devnet.chain.frontRun(signed, { pending: true });
      await devnet.chain.mine();
      expect(await settling).toMatchObject({ success: false });
      expect(await paid(payer)).toMatchObject([{ transaction }]);
    } finally {
      await devnet.chain.resumeMining();
    }
  });

  test("a payer that cancels the authorization in time is not charged", async () => {
    const { payload, payer, signed } = await payment();
    await devnet.chain.pauseMining();
    try {
      const settling = settle(payload);
      await eventually("the facilitator's transaction waits", poolSize);
      await devnet.chain.cancelAuthorization(payer, signed.authorization.nonce, { pending: true });
      await devnet.chain.mine();
      expect(await settling).toMatchObject({ success: false });
      expect(await paid(payer)).toEqual([]);
    } finally {
      await devnet.chain.resumeMining();
    }
  });

  test("an authorization expires by block time, even if the wall clock does not advance", async () => {
    const { chain } = devnet;
    const before = await chain.snapshot();
    const { payload, payer } = await payment();
    await chain.increaseTime(3600);
    expect(await settle(payload)).toMatchObject({
      success: false,
      errorReason: "invalid_exact_evm_payload_authorization_valid_before",
    });
    expect(await paid(payer)).toEqual([]);
    await chain.revert(before);
    expect(Number(await chain.now()) - Date.now() / 1000).toBeLessThan(5);
    const { payload: later } = await payment();
    expect(await settle(later)).toMatchObject({ success: true });
  });
});
