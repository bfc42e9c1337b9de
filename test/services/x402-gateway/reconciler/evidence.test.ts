import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { useDevnet } from "../../../fixtures/devnet.ts";
import type { TestX402 } from "../../../fixtures/x402.ts";
import { idIn, PRICE, useX402 } from "../../../fixtures/x402.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { authorizationIn } from "../../../support/sign-payment.ts";

const fixture = useX402({ devnet: useDevnet({ fresh: "test" }) });

/** Moves the clock until the reconciler has proven the payment. */
async function untilProven(x402: TestX402, id: unknown): Promise<void> {
  await eventually("it is proven", async () => {
    x402.skip(5000);
    return (await x402.journal.find(String(id)))?.proven === true;
  });
}

test("a payment that a reorganisation removes is settled again, and charged once", async () => {
  const x402 = await fixture.gateway();
  const before = await fixture.devnet.chain.snapshot();
  const headers = await x402.pay({ payer: fixture.payer });
  const answer = await x402.undisturbed(() => x402.post(headers));
  expect(answer.status).toBe(202);
  expect(await fixture.charged()).toEqual([PRICE]);
  await fixture.devnet.chain.revert(before);
  expect(await fixture.charged()).toEqual([]);
  x402.skip(35_000);
  await eventually("it is paid again", async () => (await fixture.charged()).length === 1);
  const id = idIn(answer);
  await eventually("it is said", () => x402.log.text().includes("payment.reorged"));
  expect(x402.log.text()).toMatch(/the chain no longer shows transaction 0x[0-9a-f]{64}/);
  await untilProven(x402, id);
  expect((await x402.journal.find(id))?.dispatches).toBe(2);
  expect(await x402.waiting()).toHaveLength(1);
});

test("a payment that is included again in an earlier block than the chain's head at its claim is proven", async () => {
  const before = await fixture.devnet.chain.snapshot();
  await fixture.devnet.chain.mine(4);
  const x402 = await fixture.gateway({ token: { confirmations: 6 } });
  const headers = await x402.pay({ payer: fixture.payer });
  const head = await fixture.devnet.chain.client.getBlockNumber();
  const id = idIn(await x402.undisturbed(() => x402.post(headers)));
  await fixture.devnet.chain.revert(before);
  const hash = await fixture.devnet.chain.frontRun(authorizationIn(headers));
  const { blockNumber } = await fixture.devnet.chain.client.waitForTransactionReceipt({ hash });
  expect(blockNumber).toBeLessThan(head);
  await fixture.devnet.chain.mine(12);
  await untilProven(x402, id);
  expect((await x402.journal.find(id))?.reason).toBeUndefined();
});

onlyInLongRun(() => {
  test("a facilitator that falsely reports a settlement gives no job away, and is asked again until the money has moved", async () => {
    const x402 = await fixture.gateway({ x402: { settle_timeout_secs: 1 } });
    await fixture.devnet.control.fault({ on: "settle", kind: "accept", times: 1 });
    const headers = await x402.pay({ payer: fixture.payer });
    const answer = await x402.undisturbed(() => x402.post(headers));
    expect([answer.status, answer.json()["code"]]).toEqual([503, "payment.outcome_unknown"]);
    expect(await x402.waiting()).toEqual([]);
    await x402.untilState(idIn(answer), "QUEUED");
    expect(await fixture.charged()).toEqual([PRICE]);
    expect((await x402.post(headers)).status).toBe(202);
    expect(await x402.waiting()).toHaveLength(1);
  });
});

test("if the configuration trusts a facilitator's report, a facilitator that falsely reports a settlement is asked again until the money has moved", async () => {
  const x402 = await fixture.gateway({ token: { settlement_proof: "facilitator" } });
  await fixture.devnet.control.fault({ on: "settle", kind: "accept", times: 1 });
  const headers = await x402.pay({ payer: fixture.payer });
  const answer = await x402.undisturbed(() => x402.post(headers));
  expect(answer.status).toBe(202);
  expect(await fixture.charged()).toEqual([]);
  x402.skip(35_000);
  await eventually("it is paid", async () => (await fixture.charged()).length === 1);
  await untilProven(x402, answer.json()["call_id"]);
});

test("a payment that the chain shows at the configured depth is proven, and not settled again", async () => {
  const x402 = await fixture.gateway({ token: { confirmations: 2 } });
  const headers = await x402.pay({ payer: fixture.payer });
  const answer = await x402.undisturbed(() => x402.post(headers));
  await fixture.devnet.chain.mine(3);
  x402.skip(35_000);
  await untilProven(x402, answer.json()["call_id"]);
  expect((await fixture.asked()).settle).toBe(1);
});
