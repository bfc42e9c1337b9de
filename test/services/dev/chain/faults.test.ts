import { expect, test } from "vitest";
import type { FaultOrder } from "../../../../services/dev/chain/faults.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { useFacilitator } from "./use-facilitator.ts";

const { devnet, requirements, call, verify, settle, paid, payment } = useFacilitator();

const order = (fault: FaultOrder) => devnet.control.fault(fault);

test("with the fault drop the facilitator breaks the connection after the money has moved", async () => {
  const { payload, payer } = await payment();
  await order({ on: "settle", kind: "drop", acts: true, times: 1 });
  await expect(settle(payload)).rejects.toThrow();
  expect(await paid(payer)).toHaveLength(1);
  expect(await settle(payload)).toMatchObject({ errorReason: "invalid_exact_evm_nonce_already_used" });
});

test("with the fault drop that does not act the facilitator moves no money, and serves the next request", async () => {
  const { payload, payer } = await payment();
  await order({ on: "settle", kind: "drop", times: 1 });
  await expect(settle(payload)).rejects.toThrow();
  expect(await paid(payer)).toEqual([]);
  expect(await settle(payload)).toMatchObject({ success: true });
});

const FAULTS: readonly [string, FaultOrder, { status: number; text: RegExp; charges: number }][] = [
  ["5xx with JSON", { on: "settle", kind: "status", status: 500 }, { status: 500, text: /^\{/, charges: 0 }],
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
];

test.each(sample(FAULTS, 3))(
  "with the fault %s for settle the facilitator answers so, and moves money only if the fault says that it acts",
  async (_name, fault, { status, text, charges }) => {
    const { payload, payer } = await payment();
    await order(fault);
    const answer = await call("settle", payload);
    expect(answer.status).toBe(status);
    expect(answer.text).toMatch(text);
    expect(await paid(payer)).toHaveLength(charges);
    if (fault.kind === "redirect") expect(answer.headers.get("location")).toBe("/redirected");
    if (fault.kind === "status" && fault.retryAfterSecs !== undefined)
      expect(answer.headers.get("retry-after")).toBe(String(fault.retryAfterSecs));
  },
);

onlyInLongRun(() => {
  test("a delayed transaction has the announced hash, and a second settle waits for it", async () => {
    const { payload, payer } = await payment();
    await order({ on: "settle", kind: "pending", landsAfterMs: 300, times: 1 });
    const first = await settle(payload);
    expect(first).toMatchObject({ success: false, errorReason: "settlement_pending" });
    expect(await paid(payer)).toEqual([]);
    expect(await settle(payload)).toMatchObject({ success: true, transaction: first.transaction });
    expect(await paid(payer)).toMatchObject([{ transaction: first.transaction }]);
  });

  test("with the fault slow the facilitator waits before it acts, or before it answers", async () => {
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

  test("a delayed answer is sent at once when the faults are cleared", async () => {
    const { payload, payer } = await payment();
    await order({ on: "settle", kind: "slow", replyDelayMs: 600_000 });
    const settling = settle(payload);
    await eventually("the transaction lands", async () => (await paid(payer)).length === 1);
    await devnet.control.clearFaults();
    expect(await settling).toMatchObject({ success: true });
  });

  test("delayed work is done at once when the faults are cleared, and then its answer is not delayed", async () => {
    const { payload } = await payment();
    await devnet.control.clearRequests();
    await order({ on: "settle", kind: "slow", delayMs: 600_000, replyDelayMs: 600_000 });
    const settling = settle(payload);
    await eventually("it has come", async () => (await devnet.control.requests()).settle === 1);
    await devnet.control.clearFaults();
    expect(await settling).toMatchObject({ success: true });
  });

  test("with the fault huge the facilitator sends a body of many megabytes that is JSON", async () => {
    const { payload } = await payment();
    await order({ on: "verify", kind: "huge", bytes: 3_000_000 });
    const { text } = await call("verify", payload);
    expect(text.length).toBeGreaterThan(3_000_000);
    expect(JSON.parse(text)).toMatchObject({ isValid: true });
  });

  test("a body without an end does no harm once its client disconnects", async () => {
    const { payload } = await payment();
    await order({ on: "verify", kind: "huge", bytes: 2 ** 40, times: 1 });
    const body = JSON.stringify({ paymentPayload: payload, paymentRequirements: requirements() });
    const answer = await fetch(`${devnet.facilitatorUrl}/verify`, { method: "POST", body });
    const reader = answer.body!.getReader();
    await reader.read();
    await reader.cancel();
    expect(await verify(payload)).toMatchObject({ isValid: true });
  });

  test("a request that follows a redirect of the facilitator is counted", async () => {
    await order({ on: "verify", kind: "redirect", status: 307, times: 1 });
    await fetch(`${devnet.facilitatorUrl}/verify`, { method: "POST", body: "{}" });
    expect(await devnet.control.requests()).toMatchObject({ verify: 1, redirected: 1 });
  });
});

test("faults of one operation do not affect others, and end by their count or when they are cleared", async () => {
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

test("the facilitator's requests are counted as they arrive, even those that get a fault", async () => {
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
