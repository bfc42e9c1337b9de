import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { x402Client } from "@x402/core/client";
import type { PaymentRequirements, SettleResponse, VerifyResponse } from "@x402/core/types";
import type { PaymentRequirementsV1 } from "@x402/core/types/v1";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { ExactEvmSchemeV1 } from "@x402/evm/exact/v1/client";
import { privateKeyToAccount } from "viem/accounts";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { registryAbi } from "../../../services/devnet/contracts/caller-registry.ts";
import { multicall3Code } from "../../../services/devnet/contracts/multicall3.ts";
import type { FaultOrder } from "../../../services/devnet/faults.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import {
  type DevAccount,
  newPayer,
  type SignedPayment,
  signPayment,
  signPaymentV1,
  startTestDevnet,
  type TestDevnet,
} from "../../support/devnet.ts";

let devnet: TestDevnet;
beforeAll(async () => {
  devnet = await startTestDevnet({ blockTimeMs: 0, confirmationTimeoutMs: 1500 });
});
afterAll(() => devnet?.stop());
afterEach(async () => {
  await devnet.control.clearFaults();
  await devnet.control.clearRequests();
});

const PRICE = 12_345n;

function requirements(): PaymentRequirements {
  return {
    scheme: "exact",
    network: devnet.network as PaymentRequirements["network"],
    asset: devnet.token,
    amount: String(PRICE),
    payTo: devnet.seller,
    maxTimeoutSeconds: 120,
    extra: { name: "USDC", version: "2" },
  };
}

function requirementsV1(): PaymentRequirementsV1 {
  return {
    scheme: "exact",
    network: devnet.networkV1 as PaymentRequirementsV1["network"],
    maxAmountRequired: String(PRICE),
    resource: "https://seller.example/jobs",
    description: "",
    mimeType: "application/json",
    outputSchema: {},
    payTo: devnet.seller,
    maxTimeoutSeconds: 120,
    asset: devnet.token,
    extra: { name: "USDC", version: "2" },
  };
}

async function call<Answer>(
  path: "verify" | "settle",
  paymentPayload: object,
  terms: object = requirements(),
) {
  const { x402Version } = paymentPayload as { x402Version: number };
  const body = JSON.stringify({ x402Version, paymentPayload, paymentRequirements: terms });
  const answer = await fetch(`${devnet.facilitatorUrl}/${path}`, {
    method: "POST",
    body,
    redirect: "manual",
  });
  const text = await answer.text();
  return { status: answer.status, headers: answer.headers, text, json: () => JSON.parse(text) as Answer };
}

const verify = async (payload: object, terms?: object) =>
  (await call<VerifyResponse>("verify", payload, terms)).json();
const settle = async (payload: object, terms?: object) =>
  (await call<SettleResponse>("settle", payload, terms)).json();

/** The payer's transfers to the seller. */
async function paid({ address }: DevAccount) {
  const all = await devnet.chain.transfers(devnet.seller);
  return all.filter(({ from }) => from === address.toLowerCase());
}

async function payment(): Promise<SignedPayment<object> & { payer: DevAccount }> {
  const payer = await newPayer(devnet);
  return { payer, ...(await signPayment(requirements(), { payer })) };
}

describe("the chain", () => {
  test("the committed contracts are what their sources compile to", async () => {
    const script = new URL("../../../services/devnet/contracts/compile.mjs", import.meta.url).pathname;
    await promisify(execFile)(process.execPath, [script, "--check"]);
  });

  test("payers hold tokens, the seller none, and final blocks are two behind the head", async () => {
    const { chain, payers, seller } = devnet;
    expect(await Promise.all(payers.map(({ address }) => chain.balanceOf(address)))).toEqual(
      payers.map(() => 1_000_000_000_000n),
    );
    expect(await chain.balanceOf(privateKeyToAccount(payers[0]!.privateKey).address)).toBeGreaterThan(0n);
    expect(seller).toMatch(/^0x/);
    await chain.mine(3);
    const head = await chain.client.getBlock();
    const final = await chain.client.getBlock({ blockTag: "finalized" });
    expect(head.number - final.number).toBe(2n);
    const code = await chain.client.getCode({ address: "0xcA11bde05977b3631167028862bE2a173976CA11" });
    expect(code).toBe(multicall3Code);
  });

  test("a payment's log has AuthorizationUsed right before Transfer, and both forms of signature work", async () => {
    const { payload, payer, signed } = await payment();
    expect((await settle(payload)).success).toBe(true);
    const [transfer, ...others] = await paid(payer);
    expect(others).toEqual([]);
    expect(transfer).toMatchObject({ value: PRICE, nonce: signed.authorization.nonce });
    const other = await payment();
    await devnet.chain.frontRun(other.signed);
    expect(await paid(other.payer)).toMatchObject([{ nonce: other.signed.authorization.nonce }]);
  });

  test("the registry answers who is permitted, reverts or burns gas on command", async () => {
    const { chain, callerRegistry, seller } = devnet;
    const ask = (serviceId: bigint) =>
      chain.client.readContract({
        address: callerRegistry,
        abi: registryAbi,
        functionName: "isPermittedCaller",
        args: [serviceId, seller],
      });
    expect(await ask(7n)).toBe(false);
    await chain.permitCaller(7n, seller);
    expect(await ask(7n)).toBe(true);
    expect(await ask(8n)).toBe(false);
    await expect(ask(2n ** 64n - 1n)).rejects.toThrow("cannot tell");
    await expect(ask(2n ** 64n - 2n)).rejects.toThrow(/gas/i);
  });
});

describe("the facilitator", () => {
  test("takes what the official version 2 client signs", async () => {
    const payer = await newPayer(devnet);
    const client = new x402Client().register(
      "eip155:*",
      new ExactEvmScheme(privateKeyToAccount(payer.privateKey)),
    );
    const payload = await client.createPaymentPayload({
      x402Version: 2,
      resource: { url: "https://seller.example/jobs" },
      accepts: [requirements()],
    });
    expect(await verify(payload)).toEqual({ isValid: true, payer: payer.address });
    const settled = await settle(payload);
    expect(settled).toMatchObject({ success: true, network: devnet.network, payer: payer.address });
    expect(await paid(payer)).toMatchObject([{ value: PRICE, transaction: settled.transaction }]);
  });

  test("takes what the official version 1 client signs, and what the helper signs", async () => {
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

  test("says it serves both versions", async () => {
    const supported = (await (await fetch(`${devnet.facilitatorUrl}/supported`)).json()) as object;
    expect(supported).toMatchObject({
      kinds: [
        { x402Version: 2, scheme: "exact", network: devnet.network },
        { x402Version: 1, scheme: "exact", network: "base-sepolia" },
      ],
    });
  });

  test("settles ten payments at once, and goes on after refused ones among them", async () => {
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

  test.each<[string, string, (payer: DevAccount) => Promise<object>]>([
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
  ])("tells the reason of a failure from the token's own words: %s", async (_case, reason, prepare) => {
    const payload = await prepare(await newPayer(devnet));
    expect(await verify(payload)).toMatchObject({ isValid: false, invalidReason: reason });
    expect(await settle(payload)).toMatchObject({ success: false, errorReason: reason });
  });

  test("tells a wrong EIP-712 name and a foreign signature", async () => {
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

  test("answers settlement_pending while no block is made, and success when asked again after one", async () => {
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

  test("goes on after the chain was set back", async () => {
    const before = await devnet.chain.snapshot();
    const { payload, payer } = await payment();
    expect((await settle(payload)).success).toBe(true);
    await devnet.chain.revert(before);
    expect(await paid(payer)).toEqual([]);
    await devnet.chain.mint(payer.address, PRICE);
    expect((await settle(payload)).success).toBe(true);
    expect(await paid(payer)).toHaveLength(1);
  });
});

describe("races", () => {
  test("a third party that pays more for its place comes first", async () => {
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

  test("a payer that takes the authorization back in time is not charged", async () => {
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

  test("block time moves on without the wall clock, and ends an authorization", async () => {
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

async function poolSize(): Promise<number> {
  return (await devnet.chain.client.getTxpoolStatus()).pending;
}

describe("faults on command", () => {
  const order = (fault: FaultOrder) => devnet.control.fault(fault);

  test("a reply dropped after the transaction landed: the connection breaks, the money has moved", async () => {
    const { payload, payer } = await payment();
    await order({ on: "settle", kind: "drop", acts: true, times: 1 });
    await expect(settle(payload)).rejects.toThrow();
    expect(await paid(payer)).toHaveLength(1);
    expect(await settle(payload)).toMatchObject({ errorReason: "invalid_exact_evm_nonce_already_used" });
  });

  test("a request dropped before anything is done: no money has moved, and the next one is served", async () => {
    const { payload, payer } = await payment();
    await order({ on: "settle", kind: "drop", times: 1 });
    await expect(settle(payload)).rejects.toThrow();
    expect(await paid(payer)).toEqual([]);
    expect(await settle(payload)).toMatchObject({ success: true });
  });

  test.each<[string, FaultOrder, { status: number; text: RegExp; charges: number }]>([
    [
      "5xx with JSON",
      { on: "settle", kind: "status", status: 500 },
      { status: 500, text: /^\{/, charges: 0 },
    ],
    [
      "5xx without JSON",
      { on: "settle", kind: "status", status: 503, body: "upstream" },
      { status: 503, text: /^upstream$/, charges: 0 },
    ],
    [
      "5xx after landing",
      { on: "settle", kind: "status", status: 502, acts: true },
      { status: 502, text: /fault/, charges: 1 },
    ],
    [
      "429",
      { on: "settle", kind: "status", status: 429, retryAfterSecs: 3 },
      { status: 429, text: /fault/, charges: 0 },
    ],
    [
      "a page after landing",
      { on: "settle", kind: "not_json", acts: true },
      { status: 200, text: /^<html>/, charges: 1 },
    ],
    [
      "a refusal",
      { on: "settle", kind: "refuse", reason: "because" },
      { status: 200, text: /"success":false,"errorReason":"because"/, charges: 0 },
    ],
    [
      "a refusal that is a lie",
      { on: "settle", kind: "refuse", acts: true },
      { status: 200, text: /"success":false/, charges: 1 },
    ],
    [
      "a success that is a lie",
      { on: "settle", kind: "accept" },
      { status: 200, text: /"success":true,"transaction":"0x[0-9a-f]{64}"/, charges: 0 },
    ],
    ["a redirect", { on: "settle", kind: "redirect", status: 307 }, { status: 307, text: /^$/, charges: 0 }],
    [
      "pending, never landing",
      { on: "settle", kind: "pending" },
      { status: 200, text: /"settlement_pending","transaction":"0x[0-9a-f]{64}"/, charges: 0 },
    ],
  ])("%s", async (_name, fault, { status, text, charges }) => {
    const { payload, payer } = await payment();
    await order(fault);
    const answer = await call("settle", payload);
    expect(answer.status).toBe(status);
    expect(answer.text).toMatch(text);
    expect(await paid(payer)).toHaveLength(charges);
    if (fault.kind === "redirect") expect(answer.headers.get("location")).toBe("/redirected");
    if (fault.kind === "status" && fault.retryAfterSecs !== undefined)
      expect(answer.headers.get("retry-after")).toBe(String(fault.retryAfterSecs));
  });

  test("pending and landing later: the named transaction comes, and settling again waits for it", async () => {
    const { payload, payer } = await payment();
    await order({ on: "settle", kind: "pending", landsAfterMs: 300, times: 1 });
    const first = await settle(payload);
    expect(first).toMatchObject({ success: false, errorReason: "settlement_pending" });
    expect(await paid(payer)).toEqual([]);
    expect(await settle(payload)).toMatchObject({ success: true, transaction: first.transaction });
    expect(await paid(payer)).toMatchObject([{ transaction: first.transaction }]);
  });

  test("delays before acting and before answering", async () => {
    const { payload, payer } = await payment();
    await order({ on: "settle", kind: "slow", replyDelayMs: 400, times: 1 });
    await order({ on: "verify", kind: "slow", delayMs: 300, times: 1 });
    const start = performance.now();
    await verify(payload);
    expect(performance.now() - start).toBeGreaterThan(280);
    let answered = false;
    const settling = settle(payload).finally(() => {
      answered = true;
    });
    await eventually("the transaction lands", async () => (await paid(payer)).length === 1);
    expect(answered).toBe(false);
    expect(await settling).toMatchObject({ success: true });
  });

  test("a body of many megabytes", async () => {
    const { payload } = await payment();
    await order({ on: "verify", kind: "huge", bytes: 3_000_000 });
    const { text } = await call("verify", payload);
    expect(text.length).toBeGreaterThan(3_000_000);
    expect(JSON.parse(text)).toMatchObject({ isValid: true });
  });

  test("a body without end to a client that goes away, which harms nobody", async () => {
    const { payload } = await payment();
    await order({ on: "verify", kind: "huge", bytes: 2 ** 40, times: 1 });
    const body = JSON.stringify({ paymentPayload: payload, paymentRequirements: requirements() });
    const answer = await fetch(`${devnet.facilitatorUrl}/verify`, { method: "POST", body });
    const reader = answer.body!.getReader();
    await reader.read();
    await reader.cancel();
    expect(await verify(payload)).toMatchObject({ isValid: true });
  });

  test("a redirect that is followed is counted", async () => {
    await order({ on: "verify", kind: "redirect", status: 307, times: 1 });
    await fetch(`${devnet.facilitatorUrl}/verify`, { method: "POST", body: "{}" });
    expect(await devnet.control.requests()).toMatchObject({ verify: 1, redirected: 1 });
  });

  test("faults of one operation leave the others alone, and wear off by count or when cleared", async () => {
    const { payload } = await payment();
    await order({ on: "verify", kind: "refuse", reason: "no", times: 2 });
    await order({ on: "supported", kind: "status", status: 503 });
    expect(await verify(payload)).toMatchObject({ isValid: false, invalidReason: "no" });
    expect(await verify(payload)).toMatchObject({ isValid: false, invalidReason: "no" });
    expect(await verify(payload)).toMatchObject({ isValid: true });
    const supported = () => fetch(`${devnet.facilitatorUrl}/supported`).then(({ status }) => status);
    expect(await supported()).toBe(503);
    await devnet.control.clearFaults();
    expect(await supported()).toBe(200);
  });

  test("an order that makes no sense is refused with what is wrong in it", async () => {
    await expect(devnet.control.fault({ on: "verify", kind: "pending" } as never)).rejects.toThrow(
      /400.*settle/s,
    );
    await expect(devnet.control.fault({ on: "settle", kind: "drop", extra: 1 } as never)).rejects.toThrow(
      /extra/,
    );
  });

  test("requests are counted as they came, even those that a fault swallows", async () => {
    const { payload, payer, signed } = await payment();
    await order({ on: "settle", kind: "drop", times: 1 });
    await verify(payload);
    await settle(payload).catch(() => {});
    await settle(payload);
    const seen = { payer: payer.address.toLowerCase(), nonce: signed.authorization.nonce, x402Version: 2 };
    const received = await devnet.control.requests();
    expect(received).toMatchObject({ supported: 0, verify: 1, settle: 2, redirected: 0 });
    expect(received.requests).toMatchObject([
      { on: "verify", ...seen },
      { on: "settle", ...seen },
      { on: "settle", ...seen },
    ]);
    await devnet.control.clearRequests();
    expect(await devnet.control.requests()).toMatchObject({ verify: 0, settle: 0, requests: [] });
  });
});
