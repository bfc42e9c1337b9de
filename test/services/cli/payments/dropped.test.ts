import { beforeEach, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { usePayments } from "../../../fixtures/payments.ts";
import { jsonLines } from "../../../fixtures/postern.ts";
import { keys } from "../../../fixtures/redis.ts";
import { idIn, PRICE, QUICK_ROUND_MS } from "../../../fixtures/x402.ts";
import { onlyInLongRun } from "../../../support/long-run.ts";
import { dropOf } from "../../../support/made-payment.ts";
import { authorizationIn } from "../../../support/sign-payment.ts";
import { runHereWith } from "../run-here.ts";

const payments = usePayments();
const { devnet, redis } = payments;
const run = runHereWith(payments.postern);
const REASON = "it fills Redis";

/** First block of a test. */
let fromBlock: string;
beforeEach(async () => {
  await payments.restartGateway({ roundMs: QUICK_ROUND_MS, x402: { settle_timeout_secs: 1 } });
  await devnet.chain.mine();
  fromBlock = String((await devnet.chain.client.getBlockNumber()) + 1n);
});

const drop = (id: string, ...more: string[]) =>
  run(["payments", "resolve", id, "--dropped", "--reason", REASON, ...more]);
const find = (id: string) => payments.gateway.journal.find(id);
const usage = () => redis.client.exists(keys.paymentsUsage, keys.paymentsUsageBy);
const settles = async () => (await devnet.control.requests()).settle;
const audited = async () => {
  const entries = await redis.client.xrange(keys.audit("money"), "-", "+");
  return entries.map(([, fields]) => fields.join(" "));
};

/** Makes a claimed payment that the facilitator does not settle. */
async function unsettled() {
  await devnet.control.fault({ on: "settle", kind: "status", status: 500 });
  const headers = await payments.gateway.pay({ payer: payments.payer });
  const answer = await payments.gateway.post(headers);
  expect(answer.status).toBe(503);
  return { headers, id: idIn(answer) };
}

/** Waits until a gateway has checked the payment this many times. The test shortens the growing waits. */
async function untilChecked(id: string, times: number): Promise<void> {
  for (let look = 0; look < times; look++) {
    const due = await redis.client.zscore(keys.paymentsDue, id);
    await eventually("it is looked at", async () => {
      payments.gateway.skip(5000);
      return (await redis.client.zscore(keys.paymentsDue, id)) !== due;
    });
  }
}

async function expectRefundCase(id: string): Promise<void> {
  const payment = await eventually("the chain has shown the money", async () => {
    payments.gateway.skip(5000);
    const found = await find(id);
    return found?.proven === true && found.state === "DISCARDED" ? found : undefined;
  });
  expect(payment).toMatchObject({ effect: "none", call: undefined, callBytes: 0, reason: undefined });
  expect([await payments.gateway.waiting(), await payments.charged()]).toEqual([[], [PRICE]]);
  const [due] = jsonLines(await run(["refunds", "list", "-o", "json"]));
  expect(due).toMatchObject({ call_id: id, effect: "none", state: "discarded", obstacle: null });
  const audit = await run(["payments", "audit", "--from-block", fromBlock, "-o", "json"]);
  expect(JSON.parse(audit.stdout)).toMatchObject({ tokens: [{ matched: 1, orphans: [], unsettled: [] }] });
}

test("the body of an open payment is dropped with an audit entry: no further settle request is sent, and money that still arrives is due back", async () => {
  const { id, headers } = await unsettled();
  expect(await usage()).toBe(2);
  const ran = await drop(id, "-o", "json");
  expect([ran.code, jsonLines(ran)]).toMatchObject([
    0,
    [{ call_id: id, body_kept: false, dropped: { reason: expect.any(String) } }],
  ]);
  expect(await usage(), "it counts for its client no longer").toBe(0);
  expect(await audited()).toEqual([expect.stringContaining(`action drop call_id ${id} by `)]);
  const shown = JSON.parse((await run(["payments", "show", id, "-o", "json"])).stdout);
  expect(shown).toMatchObject({ state: "settling", body_kept: false, dropped: { reason: REASON } });
  expect(shown.actions).toEqual(["reconcile"]);

  await devnet.control.clearFaults();
  const before = await settles();
  await untilChecked(id, 3);
  expect(await settles()).toBe(before);
  await devnet.chain.frontRun(authorizationIn(headers));
  await expectRefundCase(id);
  expect(await settles()).toBe(before);
  const again = await payments.gateway.post(headers);
  expect([again.status, again.json()["status"]]).toEqual([202, "discarded"]);
});

test("while a payment is being settled, its request is answered that the call is discarded", async () => {
  await devnet.control.fault({ on: "settle", kind: "slow", delayMs: 2000 });
  await payments.restartGateway({ roundMs: QUICK_ROUND_MS, x402: { settle_timeout_secs: 20 } });
  const answering = payments.gateway.post(await payments.gateway.pay({ payer: payments.payer }));
  const id = await eventually("it is claimed", async () => {
    const [found] = await redis.client.zrange(keys.paymentsUnresolved, "0", "-1");
    return found;
  });
  await payments.gateway.journal.drop(id, { by: "me", reason: REASON }, dropOf(id));
  const answer = await answering;
  expect([answer.status, answer.json()["status"]]).toEqual([202, "discarded"]);
  await expectRefundCase(id);
});

onlyInLongRun(() => {
  test("a payment in review whose body was dropped can still be resolved: declared settled it is due as a refund, declared void it is over", async () => {
    const nonce = await payments.payOnChain();
    const id = await payments.claim({ nonce });
    await payments.gateway.journal.markForReview(id, "the node lacks logs");
    expect(await drop(id)).toMatchObject({ code: 0 });
    const transfers = await devnet.chain.transfers(devnet.seller);
    const transaction = String(transfers.find((each) => each.nonce === nonce)?.transaction);
    const settled = ["--settled", "--transaction", transaction, "--reason", "seen"];
    expect(await run(["payments", "resolve", id, ...settled])).toMatchObject({ code: 0 });
    expect(await find(id)).toMatchObject({ state: "DISCARDED", effect: "none" });
    expect(await payments.gateway.waiting()).toEqual([]);
    expect((await run(["refunds", "list", "-o", "json"])).stdout).toContain(id);

    const other = await payments.claimForReview();
    expect(await drop(other)).toMatchObject({ code: 0 });
    expect(await run(["payments", "resolve", other, "--void", "--reason", "seen"])).toMatchObject({
      code: 0,
    });
    expect((await find(other))?.state).toBe("VOID");
  });

  test("only the body of a payment with an unknown outcome can be dropped, and only once", async () => {
    const bought = await payments.buy();
    const ran = await drop(bought);
    expect(ran.code).toBe(1);
    expect(ran.stderr).toContain(
      `${bought} is queued: only the body of a payment that is settling or in review can be dropped`,
    );
    expect((await find(bought))?.call).toBeDefined();
    const { id } = await unsettled();
    for (let each = 0; each < 2; each++) expect(await drop(id)).toMatchObject({ code: 0 });
    expect(await audited()).toHaveLength(1);
  });
});
