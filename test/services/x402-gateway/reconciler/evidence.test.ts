import { describe, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { keys } from "../../../../shared/redis/keys.ts";
import { useDevnet } from "../../../fixtures/devnet.ts";
import type { TestX402 } from "../../../fixtures/x402.ts";
import { PRICE, useX402 } from "../../../fixtures/x402.ts";

const fixture = useX402({ devnet: useDevnet({ fresh: "test" }) });

/** A gateway whose clock can be put ahead, so that what it does seldom is done now. */
async function clocked(options: Parameters<typeof fixture.gateway>[0] = {}) {
  let ahead = 0;
  const x402 = await fixture.gateway({ ...options, clock: () => Date.now() + ahead });
  return {
    x402,
    skip: (ms: number) => {
      ahead += ms;
    },
  };
}

/** The clock is put ahead until the reconciler has seen it. */
async function untilProven(x402: TestX402, { id, skip }: { id: unknown; skip: (ms: number) => void }) {
  await eventually("it is proven", async () => {
    skip(5000);
    return (await x402.journal.find(String(id)))?.proven === true;
  });
}

describe("what a facilitator says is checked on the chain", () => {
  test("a reorganisation takes the payment away: it is settled again, and charged once", async () => {
    const { x402, skip } = await clocked();
    const before = await fixture.devnet.chain.snapshot();
    const answer = await x402.post(await x402.pay({ payer: fixture.payer }));
    expect(answer.status).toBe(202);
    expect(await fixture.charged()).toEqual([PRICE]);
    await fixture.devnet.chain.revert(before);
    expect(await fixture.charged()).toEqual([]);
    skip(35_000);
    await eventually("it is paid again", async () => (await fixture.charged()).length === 1);
    await eventually("it is said", () => x402.log.text().includes("payment.vanished"));
    await untilProven(x402, { id: answer.json()["call_id"], skip });
    expect(await x402.waiting()).toHaveLength(1);
  });

  test("the payment comes back in an earlier block than the chain had when it was claimed", async () => {
    const before = await fixture.devnet.chain.snapshot();
    await fixture.devnet.chain.mine(4);
    const { x402, skip } = await clocked({ token: { confirmations: 6 } });
    const headers = await x402.pay({ payer: fixture.payer });
    const head = await fixture.devnet.chain.client.getBlockNumber();
    const id = String((await x402.post(headers)).json()["call_id"]);
    await fixture.devnet.chain.revert(before);
    const { payload } = JSON.parse(Buffer.from(headers["PAYMENT-SIGNATURE"] ?? "", "base64").toString());
    const hash = await fixture.devnet.chain.frontRun(payload);
    const { blockNumber } = await fixture.devnet.chain.client.waitForTransactionReceipt({ hash });
    expect(blockNumber).toBeLessThan(head);
    await fixture.devnet.chain.mine(12);
    await untilProven(x402, { id, skip });
    expect((await x402.journal.find(id))?.reason).toBeUndefined();
  });

  test("it says settled and did nothing: it is asked again until the money is there", async () => {
    const { x402, skip } = await clocked();
    await fixture.devnet.control.fault({ on: "settle", kind: "accept", times: 1 });
    const answer = await x402.post(await x402.pay({ payer: fixture.payer }));
    expect(answer.status).toBe(202);
    expect(await fixture.charged()).toEqual([]);
    skip(35_000);
    await eventually("it is paid", async () => (await fixture.charged()).length === 1);
    await untilProven(x402, { id: answer.json()["call_id"], skip });
  });

  test("a payment that the chain shows at the configured depth is proven, and not asked about again", async () => {
    const { x402, skip } = await clocked({ token: { confirmations: 2 } });
    const answer = await x402.post(await x402.pay({ payer: fixture.payer }));
    await fixture.devnet.chain.mine(3);
    skip(35_000);
    await untilProven(x402, { id: answer.json()["call_id"], skip });
    expect((await fixture.asked()).settle).toBe(1);
  });
});

test("an authorization that is used up is refused, even when nothing is remembered of it", async () => {
  const x402 = await fixture.gateway();
  const headers = await x402.pay({ payer: fixture.payer });
  const id = String((await x402.post(headers)).json()["call_id"]);
  await x402.redis.del(keys.record(id), keys.payment(id));
  await fixture.devnet.control.clearRequests();
  const answer = await x402.post(headers);
  expect([answer.status, answer.json()["code"]]).toEqual([402, "payment.rejected"]);
  expect(answer.json()["detail"]).toMatch(/nonce_already_used/);
  expect(await fixture.asked()).toEqual({ verify: 1, settle: 0 });
  expect(await x402.journal.find(id)).toBeUndefined();
});

test("an authorization that somebody used before it came here is refused: it was never dispatched", async () => {
  const x402 = await fixture.gateway();
  const headers = await x402.pay({ payer: fixture.payer });
  const { payload } = JSON.parse(Buffer.from(headers["PAYMENT-SIGNATURE"] ?? "", "base64").toString());
  fixture.foreign.push(payload.authorization.nonce);
  await fixture.devnet.chain.frontRun(payload);
  const answer = await x402.post(headers);
  expect([answer.status, answer.json()["code"]]).toEqual([402, "payment.rejected"]);
  expect(await x402.waiting()).toEqual([]);
});

test("while a chain's node has never answered, 402s are sent and nobody can be charged", async () => {
  const x402 = await fixture.gateway({ token: { rpc_url: "http://127.0.0.1:1/canary-key" }, early: true });
  await eventually("it takes calls", () => x402.gateway.readiness().ready);
  const answer = await x402.post(await x402.pay({ payer: fixture.payer }));
  expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.unavailable"]);
  expect(await fixture.asked()).toEqual({ verify: 0, settle: 0 });
  expect(answer.text + x402.log.text()).not.toContain("canary-key");
});

describe("a payer without the money", () => {
  test.each(["pay", "payV1"] as const)("is told so before anything is claimed (%s)", async (pay) => {
    const x402 = await fixture.gateway({ prices: { "7": "1000000000000000000000" } });
    const answer = await x402.post(await x402[pay]({ payer: fixture.payer }));
    expect([answer.status, answer.json()["code"]]).toEqual([402, "payment.rejected"]);
    expect(answer.json()["detail"]).toMatch(/insufficient_(funds|balance)/);
    expect((await fixture.asked()).settle).toBe(0);
  });
});

describe("a token whose EIP-712 domain is configured wrongly", () => {
  test.each([
    ["pay", { eip3009_name: "USD Coin" }],
    ["payV1", { eip3009_name: "USD Coin" }],
    ["pay", { eip3009_version: "1" }],
    ["payV1", { eip3009_version: "1" }],
  ] as const)(
    "is the operator's fault, and no payer is told that it were his (%s, %o)",
    async (pay, token) => {
      const x402 = await fixture.gateway({ token });
      const answer = await x402.post(await x402[pay]({ payer: fixture.payer }));
      expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.unavailable"]);
      expect(answer.headers["payment-required"]).toBeUndefined();
      expect(answer.json()["detail"]).toContain("operator");
      const faulty = x402.log.events.find(({ event }) => event === "offer.faulty");
      expect(faulty?.fields).toMatchObject({ symbol: "USDC", asset: fixture.devnet.token });
      expect((await fixture.asked()).settle).toBe(0);
    },
  );
});
