import { createPublicKey } from "node:crypto";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { createResults } from "../../../shared/call/results/store.ts";
import type { Part } from "../../../shared/dev/process.ts";
import { untilSelling } from "../../../shared/dev/stack.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import type { PaidAnswer } from "../../../shared/openapi/x402-answers.ts";
import { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { PaymentState } from "../../../shared/payments/payment.ts";
import { verifyReceipt } from "../../../shared/payments/receipt.ts";
import { FAILPOINTS } from "../../../shared/platform/lifecycle/failpoint.ts";
import { within } from "../../../shared/platform/time/clock.ts";
import { useDevnet } from "../../fixtures/devnet.ts";
import { keys } from "../../fixtures/redis.ts";
import { useStack } from "../../fixtures/stack.ts";
import { PUBLIC_URL, signOffer } from "../../fixtures/x402.ts";
import { send } from "../../support/http.ts";
import { onlyInLongRun, sample } from "../../support/long-run.ts";
import { dropOf } from "../../support/made-payment.ts";
import { newReceiptKey } from "../../support/receipt-key.ts";
import { authorizationIn } from "../../support/sign-payment.ts";
import { setAnswers } from "../../support/wallets.ts";
import {
  type Customer,
  newCustomer,
  PAYER_KINDS,
  type PayerKind,
  sellingToAllKinds,
  transfersOfAllKinds,
} from "../payers.ts";

const PATH = "/x402/jobs/1/1";
/** Due time of a payment that stays untouched until the test makes it due. */
const NOT_DUE = 10 ** 15;

const receiptKey = newReceiptKey();
const devnet = useDevnet();
/** The first gateway is killed; the second one is another replica. */
const stack = useStack(() => ({
  endpoints: [{ path: "/hook", job_id: 1, auth: "none" }],
  gateways: 0,
  x402: sellingToAllKinds(devnet, { max_timeout_secs: 60, receipt_keys: receiptKey.pem }),
}));
let gateway: Part;
let replica: Part;
beforeAll(async () => {
  [gateway, replica] = stack.x402 as [Part, Part];
  await Promise.all(stack.x402.map(untilSelling));
});
afterEach(async () => {
  await devnet.control.clearFaults();
  await devnet.chain.resumeMining();
});

async function startAgain(part: Part, env: NodeJS.ProcessEnv = {}): Promise<void> {
  await part.restart(env);
  await untilSelling(part);
}

type Payment = { customer: Customer; payer: string; header: Record<string, string> };

/** Creates one payment, which can be sent as often as needed. */
async function createPayment(kind: PayerKind): Promise<Payment> {
  const customer = await newCustomer(devnet, kind);
  const { payer, asset } = customer;
  const challenge = await send(gateway.address, { path: PATH, body: "" });
  const header = await signOffer(challenge, { payer, validBefore: inSecs(58) }, asset);
  return { customer, payer: payer.address.toLowerCase(), header };
}

const paymentsOf = (kinds: readonly PayerKind[]) => Promise.all(kinds.map(createPayment));

function inSecs(seconds: number): bigint {
  return BigInt(Math.floor(Date.now() / 1000) + seconds);
}

function post(header: Record<string, string>, to = gateway) {
  return send(to.address, { path: PATH, headers: header, body: "buy" });
}

/** Makes a wallet deny all signatures from now on, even those it confirmed before. */
async function denySignatures({ customer }: Payment): Promise<void> {
  if (customer.kind === "wallet") await setAnswers(devnet, customer.payer, "Never");
}

async function charges(payments: readonly { payer: string }[]): Promise<number[]> {
  const transfers = await transfersOfAllKinds(devnet);
  return payments.map(({ payer }) => transfers.filter(({ from }) => from === payer).length);
}

const chargesOf = async (payer: string) => (await charges([{ payer }]))[0];

/** Returns this payer's only payment in the journal. */
async function paymentOf(payer: string) {
  const journal = new PaymentJournal(stack.redis.partition);
  for (const id of await stack.redis.client.zrange(keys.payments, "0", "-1")) {
    const payment = await journal.find(id);
    if (payment?.terms.payer === payer) return payment;
  }
  return undefined;
}

async function putDue(payer: string, at: number): Promise<void> {
  const payment = await paymentOf(payer);
  if (payment !== undefined) await stack.redis.client.zadd(keys.paymentsDue, "XX", at, payment.id);
}

/** Makes the payment due, so that a replica reconciles it now. */
const makeDue = (payer: string) => putDue(payer, 0);

async function inState(payer: string, state: PaymentState): Promise<string> {
  return eventually(`the payment is ${state}`, async () => {
    const payment = await paymentOf(payer);
    return payment?.state === state ? payment.id : undefined;
  });
}

/**
 * Restarts the gateway and lets it die at this point: while it handles `act`, or a due payment. In the second case it
 * may die before its start event.
 */
async function killGatewayAt(point: string, act?: () => Promise<unknown>): Promise<void> {
  const started = gateway.restart({ POSTERN_FAILPOINT: point });
  const early = ({ message }: Error) => expect(message).toContain("ended (SIGKILL)");
  await (act === undefined ? started.catch(early) : started);
  const died = gateway.process.exit;
  const [done] = await Promise.allSettled([act?.()]);
  const end = await within(60_000, died);
  if (end.kind !== "done") throw new Error(`it lives past ${point}: ${JSON.stringify(done)}`);
  expect(end.result.signal, "it died at its failpoint").toBe("SIGKILL");
}

/** Sends a payment to a gateway that dies at this point. */
async function sendToDyingGateway(
  point: string,
  kind: PayerKind,
  more: Record<string, string> = {},
): Promise<Payment> {
  let payment: Payment | undefined;
  await killGatewayAt(point, async () => {
    await untilSelling(gateway);
    payment = await createPayment(kind);
    await post({ ...payment.header, ...more });
  });
  if (payment === undefined) throw new Error(`it died at ${point} before anything was paid`);
  return payment;
}

const AFTER_CLAIM = ["x402.after_claim", "x402.after_settle", "x402.after_queued", "x402.after_answer"];
const BEFORE_CLAIM = ["x402.after_verify"];
const BY_RECONCILER = ["x402.after_evidence", "x402.after_void"];

type Try = { point: string; kind: PayerKind };

/** Returns the combinations to test. The long run combines every kind of payer with every failpoint. */
const triesAt = (points: readonly string[]): readonly Try[] =>
  sample(points.flatMap((point) => PAYER_KINDS.map((kind) => ({ point, kind }))));

test("this file kills a gateway at every failpoint of the paid path", () => {
  const all = FAILPOINTS.filter((point) => point.startsWith("x402."));
  expect([...AFTER_CLAIM, ...BEFORE_CLAIM, ...BY_RECONCILER].toSorted()).toEqual([...all].toSorted());
});

/** Checks that the payment is one charge and one job with a receipt, even if the payer's contract denies it when it is sent again. */
async function expectOneJob(payment: Payment): Promise<void> {
  const { payer, header } = payment;
  const callId = await inState(payer, "INJECTED");
  expect([...stack.effectsOf([callId]), await chargesOf(payer)]).toEqual([1, 1]);
  await denySignatures(payment);
  const again = await post(header, replica);
  const { call_id, transaction, signed_receipt } = again.json<PaidAnswer>();
  expect([again.status, call_id]).toEqual([202, callId]);
  const { claims } = verifyReceipt(
    signed_receipt?.jws ?? "",
    [createPublicKey(receiptKey.publicPem)],
    PUBLIC_URL,
  );
  expect(claims).toMatchObject({ call_id, transaction, payer });
  expect([...stack.effectsOf([callId]), await chargesOf(payer)]).toEqual([1, 1]);
}

/** Sends the payments, and kills the gateway once the facilitator has reached this point with all of them. */
async function killedDuringSettle(
  payments: readonly Payment[],
  isSoFar: () => Promise<boolean>,
): Promise<void> {
  const answered = payments.map(({ header }) => post(header).catch(() => "cut off"));
  await eventually("the facilitator is so far", isSoFar);
  await gateway.kill("SIGKILL");
  expect(await Promise.all(answered), "nobody was told anything").toEqual(payments.map(() => "cut off"));
  const states = payments.map(async ({ payer }) => (await paymentOf(payer))?.state);
  expect(await Promise.all(states)).toEqual(payments.map(() => "SETTLING"));
}

const areCharged = async (payments: readonly Payment[]) =>
  (await charges(payments)).every((count) => count === 1);

test("if a gateway is killed before the money moves, its payments are searched for, not found, and settled again", async () => {
  const payments = await paymentsOf(PAYER_KINDS);
  await devnet.chain.pauseMining();
  await killedDuringSettle(payments, async () => {
    const { pending } = await devnet.chain.client.getTxpoolStatus();
    return pending === payments.length;
  });
  await Promise.all(
    payments.map(async ({ payer }) => {
      await makeDue(payer);
      const callId = (await paymentOf(payer))?.id;
      await replica.process.waitForEvent("payment.settled_again", {
        where: (event) => event["callId"] === callId,
      });
    }),
  );
  expect(await charges(payments)).toEqual(payments.map(() => 0));
  await devnet.chain.resumeMining();
  await Promise.all(payments.map(expectOneJob));
});

test("if a gateway is killed before it knows that the money has moved, its payments are one charge and one job, even if the payer's contract now denies them", async () => {
  await startAgain(gateway);
  const payments = await paymentsOf(PAYER_KINDS);
  await devnet.control.fault({ on: "settle", kind: "slow", replyDelayMs: 60_000 });
  await killedDuringSettle(payments, () => areCharged(payments));
  for (const payment of payments) {
    await denySignatures(payment);
    await makeDue(payment.payer);
  }
  await Promise.all(payments.map(expectOneJob));
});

test.each(triesAt(AFTER_CLAIM))(
  "a gateway killed at $point leaves one charge, one job, and a receipt in the answer to a repeat: payer $kind",
  async ({ point, kind }) => {
    const payment = await sendToDyingGateway(point, kind);
    // One combination runs without help, to show that an open payment is reconciled by itself.
    if (point !== "x402.after_claim" || kind !== "key") await makeDue(payment.payer);
    await expectOneJob(payment);
  },
);

test.each(triesAt(BEFORE_CLAIM))(
  "a gateway killed at $point has charged nothing, and the same payment can be sent again: payer $kind",
  async ({ point, kind }) => {
    const payment = await sendToDyingGateway(point, kind);
    const { payer, header } = payment;
    expect([await chargesOf(payer), await paymentOf(payer)]).toEqual([0, undefined]);
    expect((await post(header, replica)).status).toBe(202);
    await expectOneJob(payment);
  },
);

onlyInLongRun(() => {
  test.each(["wait.begun", "wait.before_answer"])(
    "a gateway killed at %s, whose client waits for the result, leaves one charge and one job",
    async (point) => {
      const payment = await sendToDyingGateway(point, "key", { Prefer: "wait=30" });
      await expectOneJob(payment);
      const id = (await paymentOf(payment.payer))?.id ?? "";
      expect(await createResults(stack.redis.partition).read(id)).toMatchObject({ kind: "answer" });
    },
  );

  describe("with one gateway, which reconciles, is killed and restarts", () => {
    beforeAll(() => replica.kill("SIGKILL"));

    /** Makes the payments due one after the other, and lets the gateway die at each. */
    async function killGatewayAtEach(payments: readonly Payment[], point: string): Promise<void> {
      for (const { payer } of payments) await putDue(payer, NOT_DUE);
      for (const { payer } of payments) {
        await makeDue(payer);
        await killGatewayAt(point);
        await putDue(payer, NOT_DUE);
      }
    }

    const DROPPED_POINTS = ["x402.after_evidence", "x402.after_queued"] as const;

    test("a gateway killed at x402.after_evidence searches again, and finds the same", async () => {
      await startAgain(gateway);
      const payments = await paymentsOf(PAYER_KINDS);
      await devnet.control.fault({ on: "settle", kind: "slow", replyDelayMs: 60_000 });
      await killedDuringSettle(payments, () => areCharged(payments));
      await killGatewayAtEach(payments, "x402.after_evidence");
      await startAgain(gateway);
      for (const { payer } of payments) await makeDue(payer);
      for (const { payer } of payments) {
        const callId = await inState(payer, "INJECTED");
        expect([...stack.effectsOf([callId]), await chargesOf(payer)]).toEqual([1, 1]);
      }
    });

    test.each(DROPPED_POINTS)(
      "if a gateway is killed at %s of a payment whose body was dropped and whose money has arrived, a refund is due and nothing runs",
      async (point) => {
        await startAgain(gateway);
        await devnet.control.fault({ on: "settle", kind: "drop" });
        const payment = await createPayment("key");
        const { payer, header } = payment;
        await killedDuringSettle([payment], async () => (await paymentOf(payer)) !== undefined);
        await putDue(payer, NOT_DUE);
        const id = (await paymentOf(payer))?.id ?? "";
        const journal = new PaymentJournal(stack.redis.partition);
        await journal.drop(id, { by: "me", reason: "a test" }, dropOf(id));
        await devnet.chain.frontRun(authorizationIn(header));
        await makeDue(payer);
        await killGatewayAt(point);
        await startAgain(gateway);
        await makeDue(payer);
        await inState(payer, "DISCARDED");
        expect([...stack.effectsOf([id]), await chargesOf(payer)]).toEqual([0, 1]);
        expect(await paymentOf(payer)).toMatchObject({ effect: "none", call: undefined });
        const again = await post(header);
        expect([again.status, again.json()["status"]]).toEqual([202, "discarded"]);
      },
    );

    // This test must be the last one: it puts the chain's time ahead of ours, so that every new payment would be
    // expired.
    test("if a gateway is killed at x402.after_void, a void payment stays void", async () => {
      await startAgain(gateway);
      const payments = await paymentsOf(PAYER_KINDS);
      await devnet.control.fault({ on: "settle", kind: "drop" });
      const isClaimed = async ({ payer }: Payment) => (await paymentOf(payer)) !== undefined;
      await killedDuringSettle(payments, async () =>
        (await Promise.all(payments.map(isClaimed))).every(Boolean),
      );
      await devnet.chain.increaseTime(120);
      await devnet.chain.mine(5);
      await killGatewayAtEach(payments, "x402.after_void");
      await startAgain(gateway);
      for (const { payer, header } of payments) {
        await inState(payer, "VOID");
        expect([await chargesOf(payer), (await post(header)).json()["code"]]).toEqual([0, "payment.void"]);
        expect(await stack.redis.client.scard(keys.openPayments(payer))).toBe(0);
      }
    });
  });
});
