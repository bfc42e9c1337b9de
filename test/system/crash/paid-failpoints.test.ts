import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { createResults } from "../../../shared/call/results/store.ts";
import type { Part } from "../../../shared/dev/process.ts";
import { untilSelling } from "../../../shared/dev/stack.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { PaymentState } from "../../../shared/payments/payment.ts";
import { FAILPOINTS } from "../../../shared/platform/lifecycle/failpoint.ts";
import { within } from "../../../shared/platform/time/clock.ts";
import { useDevnet } from "../../fixtures/devnet.ts";
import { keys } from "../../fixtures/redis.ts";
import { useStack } from "../../fixtures/stack.ts";
import { signOffer } from "../../fixtures/x402.ts";
import { send } from "../../support/http.ts";
import { LONG_RUN, onlyInLongRun, sample } from "../../support/long-run.ts";
import { dropOf } from "../../support/made-payment.ts";
import { signedIn } from "../../support/sign-payment.ts";
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
/**
 * The long run tries every kind of payer at every failpoint. Without it a key by EIP-3009 is tried before and after the
 * settle, and a fifth of the other pairs are: POSTERN_TEST_SEED says which.
 */
const SEED = Number(process.env["POSTERN_TEST_SEED"] ?? 0);
/** A payment that nobody looks after until it is made due. */
const NOT_DUE = 10 ** 15;

const devnet = useDevnet();
/** The first gateway is killed; the second one is another replica. */
const stack = useStack(() => ({
  endpoints: [{ path: "/hook", job_id: 1, auth: "none" }],
  x402: sellingToAllKinds(devnet, { max_timeout_secs: 60 }),
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

/** One payment, ready to be sent as often as needed. */
async function aPayment(kind: PayerKind): Promise<Payment> {
  const customer = await newCustomer(devnet, kind);
  const { payer, asset } = customer;
  const challenge = await send(gateway.address, { path: PATH, body: "" });
  const header = await signOffer(challenge, { payer, validBefore: inSecs(58) }, asset);
  return { customer, payer: payer.address.toLowerCase(), header };
}

const paymentsOf = (kinds: readonly PayerKind[]) => Promise.all(kinds.map(aPayment));

function inSecs(seconds: number): bigint {
  return BigInt(Math.floor(Date.now() / 1000) + seconds);
}

function post(header: Record<string, string>, to = gateway) {
  return send(to.address, { path: PATH, headers: header, body: "buy" });
}

/** A wallet says from now on that it has signed nothing, whatever it has said. */
async function denies({ customer }: Payment): Promise<void> {
  if (customer.kind === "wallet") await setAnswers(devnet, customer.payer, "Never");
}

async function charges(payments: readonly { payer: string }[]): Promise<number[]> {
  const transfers = await transfersOfAllKinds(devnet);
  return payments.map(({ payer }) => transfers.filter(({ from }) => from === payer).length);
}

const chargesOf = async (payer: string) => (await charges([{ payer }]))[0];

/** The one payment that this payer has in the journal. */
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

/** The replicas look after the payment without waiting until it is due by itself. */
const makeDue = (payer: string) => putDue(payer, 0);

async function inState(payer: string, state: PaymentState): Promise<string> {
  return eventually(`the payment is ${state}`, async () => {
    const payment = await paymentOf(payer);
    return payment?.state === state ? payment.id : undefined;
  });
}

/** The gateway dies at this point of what is done with it, or of a payment that is due: then maybe before it says that it has started. */
async function diesAt(point: string, act?: () => Promise<unknown>): Promise<void> {
  const started = gateway.restart({ POSTERN_FAILPOINT: point });
  const early = ({ message }: Error) => expect(message).toContain("ended (SIGKILL)");
  await (act === undefined ? started.catch(early) : started);
  const died = gateway.process.exit;
  const [done] = await Promise.allSettled([act?.()]);
  const end = await within(60_000, died);
  if (end.kind !== "done") throw new Error(`it lives past ${point}: ${JSON.stringify(done)}`);
  expect(end.result.signal, "it died at its failpoint").toBe("SIGKILL");
}

/** A payment that is sent to a gateway which dies at this point of it. */
async function sentUntil(
  point: string,
  kind: PayerKind,
  more: Record<string, string> = {},
): Promise<Payment> {
  let payment: Payment | undefined;
  await diesAt(point, async () => {
    await untilSelling(gateway);
    payment = await aPayment(kind);
    await post({ ...payment.header, ...more });
  });
  if (payment === undefined) throw new Error(`it died at ${point} before anything was paid`);
  return payment;
}

const AFTER_CLAIM = ["x402.after_claim", "x402.after_settle", "x402.after_queued", "x402.after_answer"];
const BEFORE_CLAIM = ["x402.after_verify"];
const BY_RECONCILER = ["x402.after_evidence", "x402.after_void"];

type Try = { point: string; kind: PayerKind };

/** Of all pairs of a failpoint and another kind of payer than a key, the same as often as the seed says. */
const OTHERS = [...AFTER_CLAIM, ...BEFORE_CLAIM]
  .flatMap((point) => (["wallet", "permit2"] as const).map((kind): Try => ({ point, kind })))
  .filter((_, i) => LONG_RUN || (i + SEED) % 10 === 0);

function triesAt(points: readonly string[]): Try[] {
  return [
    ...sample(points).map((point): Try => ({ point, kind: "key" })),
    ...OTHERS.filter(({ point }) => points.includes(point)),
  ];
}

test("a gateway is killed here at every failpoint of the paid path", () => {
  const all = FAILPOINTS.filter((point) => point.startsWith("x402."));
  expect([...AFTER_CLAIM, ...BEFORE_CLAIM, ...BY_RECONCILER].toSorted()).toEqual([...all].toSorted());
});

/** Whatever the payer's contract says by the time the payment is sent again. */
async function expectOneJob(payment: Payment): Promise<void> {
  const { payer, header } = payment;
  const callId = await inState(payer, "INJECTED");
  expect([...stack.effectsOf([callId]), await chargesOf(payer)]).toEqual([1, 1]);
  await denies(payment);
  const again = await post(header, replica);
  expect([again.status, again.json()["call_id"]]).toEqual([202, callId]);
  expect([...stack.effectsOf([callId]), await chargesOf(payer)]).toEqual([1, 1]);
}

/** Sends the payments, and kills the gateway once the facilitator is so far with all of them. */
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

test("a gateway killed before the money moves leaves payments that are looked for, not found, and settled again", async () => {
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

test("a gateway killed before it knows that the money has moved leaves payments that are one charge and one job, although the payer's contract has changed its mind", async () => {
  await startAgain(gateway);
  const payments = await paymentsOf(PAYER_KINDS);
  await devnet.control.fault({ on: "settle", kind: "slow", replyDelayMs: 2500 });
  await killedDuringSettle(payments, () => areCharged(payments));
  for (const payment of payments) {
    await denies(payment);
    await makeDue(payment.payer);
  }
  await Promise.all(payments.map(expectOneJob));
});

test.each(triesAt(AFTER_CLAIM))(
  "a gateway killed at $point leaves one charge and one job, although the client never sends the payment again: payer $kind",
  async ({ point, kind }) => {
    const payment = await sentUntil(point, kind);
    // Once it is not helped: an open payment is looked after by itself.
    if (point !== "x402.after_claim" || kind !== "key") await makeDue(payment.payer);
    await expectOneJob(payment);
  },
);

onlyInLongRun(() => {
  test.each(["wait.begun", "wait.before_answer"])(
    "a gateway killed at %s, whose client waits for the result, leaves one charge and one job",
    async (point) => {
      const payment = await sentUntil(point, "key", { Prefer: "wait=30" });
      await expectOneJob(payment);
      const id = (await paymentOf(payment.payer))?.id ?? "";
      expect(await createResults(stack.redis.partition).read(id)).toMatchObject({ kind: "answer" });
    },
  );
});

test.each(triesAt(BEFORE_CLAIM))(
  "a gateway killed at $point has charged nobody, and the same payment can be sent again: payer $kind",
  async ({ point, kind }) => {
    const payment = await sentUntil(point, kind);
    const { payer, header } = payment;
    expect([await chargesOf(payer), await paymentOf(payer)]).toEqual([0, undefined]);
    expect((await post(header, replica)).status).toBe(202);
    await expectOneJob(payment);
  },
);

onlyInLongRun(() => {
  describe("with one gateway, which reconciles, dies and comes back", () => {
    beforeAll(() => replica.kill("SIGKILL"));

    /** It looks at each payment by itself, and dies each time. */
    async function diesOfEach(payments: readonly Payment[], point: string): Promise<void> {
      for (const { payer } of payments) await putDue(payer, NOT_DUE);
      for (const { payer } of payments) {
        await makeDue(payer);
        await diesAt(point);
        await putDue(payer, NOT_DUE);
      }
    }

    const DROPPED_POINTS = ["x402.after_evidence", "x402.after_queued"] as const;

    test("a gateway killed at x402.after_evidence looks again, and finds the same", async () => {
      await startAgain(gateway);
      const payments = await paymentsOf(PAYER_KINDS);
      await devnet.control.fault({ on: "settle", kind: "slow", replyDelayMs: 2500 });
      await killedDuringSettle(payments, () => areCharged(payments));
      await diesOfEach(payments, "x402.after_evidence");
      await startAgain(gateway);
      for (const { payer } of payments) await makeDue(payer);
      for (const { payer } of payments) {
        const callId = await inState(payer, "INJECTED");
        expect([...stack.effectsOf([callId]), await chargesOf(payer)]).toEqual([1, 1]);
      }
    });

    test.each(DROPPED_POINTS)(
      "a gateway killed at %s of a payment whose body was dropped and whose money has arrived leaves a refund due, and runs nothing",
      async (point) => {
        await startAgain(gateway);
        await devnet.control.fault({ on: "settle", kind: "drop" });
        const payment = await aPayment("key");
        const { payer, header } = payment;
        await killedDuringSettle([payment], async () => (await paymentOf(payer)) !== undefined);
        await putDue(payer, NOT_DUE);
        const id = (await paymentOf(payer))?.id ?? "";
        const journal = new PaymentJournal(stack.redis.partition);
        await journal.drop(id, { by: "me", reason: "a test" }, dropOf(id));
        await devnet.chain.frontRun(signedIn(header));
        await makeDue(payer);
        await diesAt(point);
        await startAgain(gateway);
        await makeDue(payer);
        await inState(payer, "DISCARDED");
        expect([...stack.effectsOf([id]), await chargesOf(payer)]).toEqual([0, 1]);
        expect(await paymentOf(payer)).toMatchObject({ effect: "none", call: undefined });
        const again = await post(header);
        expect([again.status, again.json()["status"]]).toEqual([202, "discarded"]);
      },
    );

    // The last one: from here on the chain's time is ahead of ours, and no payment would last.
    test("a gateway killed at x402.after_void leaves a payment void that is void", async () => {
      await startAgain(gateway);
      const payments = await paymentsOf(PAYER_KINDS);
      await devnet.control.fault({ on: "settle", kind: "drop" });
      const isClaimed = async ({ payer }: Payment) => (await paymentOf(payer)) !== undefined;
      await killedDuringSettle(payments, async () =>
        (await Promise.all(payments.map(isClaimed))).every(Boolean),
      );
      await devnet.chain.increaseTime(120);
      await devnet.chain.mine(5);
      await diesOfEach(payments, "x402.after_void");
      await startAgain(gateway);
      for (const { payer, header } of payments) {
        await inState(payer, "VOID");
        expect([await chargesOf(payer), (await post(header)).json()["code"]]).toEqual([0, "payment.void"]);
        expect(await stack.redis.client.scard(keys.openPayments(payer))).toBe(0);
      }
    });
  });
});
