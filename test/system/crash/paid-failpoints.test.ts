import { afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Part } from "../../../shared/dev/process.ts";
import { untilSelling } from "../../../shared/dev/stack.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { FAILPOINTS } from "../../../shared/lifecycle/failpoint.ts";
import { createPaymentJournal } from "../../../shared/payments/journal.ts";
import type { PaymentState } from "../../../shared/payments/payment.ts";
import { within } from "../../../shared/time/clock.ts";
import { useDevnet } from "../../fixtures/devnet.ts";
import { keys } from "../../fixtures/redis.ts";
import { useStack } from "../../fixtures/stack.ts";
import { signOffer, x402Table } from "../../fixtures/x402.ts";
import { newPayer } from "../../support/devnet.ts";
import { send } from "../../support/http.ts";

const PATH = "/x402/jobs/1/1";

const devnet = useDevnet();
/** The first gateway is killed; the second one is another replica. */
const stack = useStack(() => ({
  endpoints: [{ path: "/hook", job_id: 1, auth: "none" }],
  x402: {
    toml: x402Table({ devnet, x402: { settle_timeout_secs: 2, max_timeout_secs: 60 } }),
    prices: { "1": { "1": "1000000000000000" } },
    gateways: 2,
  },
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

type Payment = { payer: string; header: Record<string, string> };

/** One payment, ready to be sent as often as needed. */
async function aPayment(): Promise<Payment> {
  const payer = await newPayer(devnet);
  const challenge = await send(gateway.address, { path: PATH, body: "" });
  return {
    payer: payer.address.toLowerCase(),
    header: await signOffer(challenge, { payer, validBefore: inSecs(58) }),
  };
}

function inSecs(seconds: number): bigint {
  return BigInt(Math.floor(Date.now() / 1000) + seconds);
}

function post(header: Record<string, string>, to = gateway) {
  return send(to.address, { path: PATH, headers: header, body: "buy" });
}

async function chargesOf(payer: string): Promise<number> {
  return (await devnet.chain.transfers(devnet.seller)).filter(({ from }) => from === payer).length;
}

/** The one payment that this payer has in the journal. */
async function paymentOf(payer: string) {
  const journal = createPaymentJournal(stack.redis.partition);
  for (const id of await stack.redis.client.zrange(keys.payments, "0", "-1")) {
    const payment = await journal.find(id);
    if (payment?.terms.payer === payer) return payment;
  }
  return undefined;
}

/** The replicas look after the payment without waiting until it is due by itself. */
async function makeDue(payer: string): Promise<void> {
  const payment = await paymentOf(payer);
  if (payment !== undefined) await stack.redis.client.zadd(keys.paymentsDue, "XX", 0, payment.id);
}

async function inState(payer: string, state: PaymentState): Promise<string> {
  return eventually(`the payment is ${state}`, async () => {
    const payment = await paymentOf(payer);
    return payment?.state === state ? payment.id : undefined;
  });
}

/** A payment that is sent to a gateway which dies at this point of it. */
async function diesAt(point: string, act: (payment: Payment) => Promise<unknown>): Promise<Payment> {
  await startAgain(gateway, { POSTERN_FAILPOINT: point });
  const died = gateway.process.exit;
  const payment = await aPayment();
  const [done] = await Promise.allSettled([act(payment)]);
  const end = await within(60_000, died);
  if (end.kind !== "done") throw new Error(`it lives past ${point}: ${JSON.stringify(done)}`);
  expect(end.result.signal, "it died at its failpoint").toBe("SIGKILL");
  return payment;
}

const AFTER_CLAIM = ["x402.after_claim", "x402.after_settle", "x402.after_queued", "x402.after_answer"];
const OTHERS = ["x402.after_verify", "x402.after_evidence", "x402.after_void"];

test("a gateway is killed here at every failpoint of the paid path", () => {
  const all = FAILPOINTS.filter((point) => point.startsWith("x402."));
  expect([...AFTER_CLAIM, ...OTHERS].toSorted()).toEqual([...all].toSorted());
});

async function expectOneJob({ payer, header }: Payment): Promise<void> {
  const callId = await inState(payer, "INJECTED");
  expect([...stack.effectsOf([callId]), await chargesOf(payer)]).toEqual([1, 1]);
  const again = await post(header, replica);
  expect([again.status, again.json()["call_id"]]).toEqual([202, callId]);
  expect([...stack.effectsOf([callId]), await chargesOf(payer)]).toEqual([1, 1]);
}

/** Sends the payment, and kills the gateway once the facilitator is so far with it. */
async function killedDuringSettle(payment: Payment, isSoFar: () => Promise<boolean>): Promise<void> {
  const answered = post(payment.header).catch(() => "cut off");
  await eventually("the facilitator is so far", isSoFar);
  await gateway.kill("SIGKILL");
  expect(await answered, "nobody was told anything").toBe("cut off");
  expect((await paymentOf(payment.payer))?.state).toBe("SETTLING");
  await makeDue(payment.payer);
}

test("a gateway killed before the money moves leaves a payment that is looked for, not found, and settled again", async () => {
  const payment = await aPayment();
  await devnet.chain.pauseMining();
  await killedDuringSettle(payment, async () => {
    const { pending } = await devnet.chain.client.getTxpoolStatus();
    return pending === 1;
  });
  await replica.process.waitForEvent("payment.settled_again");
  expect(await chargesOf(payment.payer)).toBe(0);
  await devnet.chain.resumeMining();
  await expectOneJob(payment);
});

test("a gateway killed before it knows that the money has moved leaves a payment that is one charge and one job", async () => {
  await startAgain(gateway);
  await devnet.control.fault({ on: "settle", kind: "slow", replyDelayMs: 2500, times: 1 });
  const payment = await aPayment();
  await killedDuringSettle(payment, async () => (await chargesOf(payment.payer)) === 1);
  await expectOneJob(payment);
});

test.each(AFTER_CLAIM)(
  "a gateway killed at %s leaves one charge and one job, though the client never comes again",
  async (point) => {
    const payment = await diesAt(point, ({ header }) => post(header));
    // Once it is not helped: an open payment is looked after by itself.
    if (point !== "x402.after_claim") await makeDue(payment.payer);
    await expectOneJob(payment);
  },
);

test("a gateway killed at x402.after_verify has charged nobody, and the same payment can be sent again", async () => {
  const payment = await diesAt("x402.after_verify", ({ header }) => post(header));
  const { payer, header } = payment;
  expect([await chargesOf(payer), await paymentOf(payer)]).toEqual([0, undefined]);
  expect((await post(header, replica)).status).toBe(202);
  await expectOneJob(payment);
});

describe("with one gateway, which reconciles, dies and comes back", () => {
  beforeAll(() => replica.kill("SIGKILL"));

  test("a gateway killed at x402.after_evidence looks again, and finds the same", async () => {
    await devnet.control.fault({ on: "settle", kind: "drop", acts: true, times: 1 });
    // Its client still waits for the chain's word.
    const { payer } = await diesAt("x402.after_evidence", ({ header }) => post(header));
    await startAgain(gateway);
    const callId = await inState(payer, "INJECTED");
    expect([...stack.effectsOf([callId]), await chargesOf(payer)]).toEqual([1, 1]);
  });

  // The last one: from here on the chain's time is ahead of ours, and no payment would last.
  test("a gateway killed at x402.after_void leaves a payment void that is void", async () => {
    await devnet.control.fault({ on: "settle", kind: "drop" });
    const { payer, header } = await diesAt("x402.after_void", async ({ header }) => {
      expect((await post(header)).status).toBe(503);
      await devnet.chain.increaseTime(120);
      await devnet.chain.mine(5);
      await gateway.process.exit;
    });
    await startAgain(gateway);
    await inState(payer, "VOID");
    expect([await chargesOf(payer), (await post(header)).json()["code"]]).toEqual([0, "payment.void"]);
    expect(await stack.redis.client.scard(keys.openPayments(payer))).toBe(0);
  });
});
