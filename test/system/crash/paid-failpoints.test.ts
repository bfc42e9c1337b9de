import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { Secret } from "../../../shared/crypto/secret.ts";
import type { Part } from "../../../shared/dev/process.ts";
import { untilSelling } from "../../../shared/dev/stack.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { FAILPOINTS } from "../../../shared/lifecycle/failpoint.ts";
import { silentLogger } from "../../../shared/log/logger.ts";
import { createPaymentJournal } from "../../../shared/payments/journal.ts";
import type { PaymentState } from "../../../shared/payments/payment.ts";
import { connectForWork, type Redis } from "../../../shared/redis/connect.ts";
import { within } from "../../../shared/time/clock.ts";
import { signOffer, x402Table } from "../../fixtures/x402.ts";
import { newPayer, startTestDevnet, type TestDevnet } from "../../support/devnet.ts";
import { effectRunner, readEffects } from "../../support/effects.ts";
import { send } from "../../support/http.ts";
import { startTestStack, type TestStack } from "../../support/stack.ts";
import { tempDir } from "../../support/temp-dir.ts";

const effectsFile = join(tempDir(), "paid-effects.jsonl");
const PATH = "/x402/jobs/1/1";

let devnet: TestDevnet;
let stack: TestStack;
let redis: Redis;
let gateway: Part;

beforeAll(async () => {
  devnet = await startTestDevnet();
  const toml = x402Table({ devnet, x402: { settle_timeout_secs: 2, max_timeout_secs: 60 } });
  stack = await startTestStack({
    endpoints: [{ path: "/hook", job_id: 1, auth: "none" }],
    x402: { toml, prices: { "1": { "1": "1000000000000000" } }, gateways: 1 },
    runnerEntry: effectRunner(),
    env: { EFFECTS_FILE: effectsFile },
  });
  gateway = stack.x402[0] as Part;
  redis = connectForWork(new Secret(stack.redis.url), silentLogger);
  await untilSelling(gateway);
});
afterAll(async () => {
  redis?.disconnect();
  await stack?.stop();
  await devnet?.stop();
});
afterEach(async () => {
  await devnet.control.clearFaults();
  await devnet.chain.resumeMining();
});

async function armed(point: string | undefined): Promise<void> {
  await gateway.restart(point === undefined ? {} : { POSTERN_FAILPOINT: point });
  await untilSelling(gateway);
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

function post(header: Record<string, string>) {
  return send(gateway.address, { path: PATH, headers: header, body: "buy" });
}

async function chargesOf(payer: string): Promise<number> {
  return (await devnet.chain.transfers(devnet.seller)).filter(({ from }) => from === payer).length;
}

/** The one payment that this payer has in the journal. */
async function paymentOf(payer: string) {
  const journal = createPaymentJournal(redis);
  for (const id of await redis.zrange("{postern}:payments", "0", "-1")) {
    const payment = await journal.find(id);
    if (payment?.terms.payer === payer) return payment;
  }
  return undefined;
}

async function inState(payer: string, state: PaymentState): Promise<string> {
  return eventually(
    `the payment is ${state}`,
    async () => {
      const payment = await paymentOf(payer);
      return payment?.state === state ? payment.id : undefined;
    },
    30_000,
  );
}

function effectsOf(callId: string): number {
  return readEffects(effectsFile).filter((effect) => effect.callId === callId).length;
}

/** A payment that is sent to a gateway which dies at this point of it, and comes back without it. */
async function diesAt(point: string, act: (payment: Payment) => Promise<unknown>): Promise<Payment> {
  await armed(point);
  const died = gateway.process.exit;
  const payment = await aPayment();
  const [done] = await Promise.allSettled([act(payment)]);
  const end = await within(30_000, died);
  if (end.kind !== "done") throw new Error(`it lives past ${point}: ${JSON.stringify(done)}`);
  expect(end.result.signal, "it died at its failpoint").toBe("SIGKILL");
  await armed(undefined);
  return payment;
}

const AFTER_CLAIM = [
  "x402.after_claim",
  "x402.after_settle",
  "x402.after_settled",
  "x402.after_add",
  "x402.after_queued",
  "x402.after_answer",
];
const OTHERS = ["x402.after_verify", "x402.after_evidence", "x402.after_void"];

test("every failpoint of the paid path is here", () => {
  const all = FAILPOINTS.filter((point) => point.startsWith("x402."));
  expect([...AFTER_CLAIM, ...OTHERS].toSorted()).toEqual([...all].toSorted());
});

describe("killed while the facilitator holds the settle request: one charge and one job", () => {
  /** Sends the payment, and kills the gateway once the facilitator is so far with it. */
  async function killedOnce(payment: Payment, isSoFar: () => Promise<boolean>): Promise<void> {
    const answered = post(payment.header).catch(() => "cut off");
    await eventually("the facilitator is so far", isSoFar);
    await gateway.kill("SIGKILL");
    expect(await answered, "nobody was told anything").toBe("cut off");
    expect((await paymentOf(payment.payer))?.state).toBe("SETTLING");
    await armed(undefined);
  }

  async function expectOneJob({ payer, header }: Payment): Promise<void> {
    const callId = await inState(payer, "INJECTED");
    expect([effectsOf(callId), await chargesOf(payer)]).toEqual([1, 1]);
    const again = await post(header);
    expect([again.status, again.json()["call_id"]]).toEqual([202, callId]);
    expect(await chargesOf(payer)).toBe(1);
  }

  test("the money moves only after it was looked for, not found, and asked for again", async () => {
    const payment = await aPayment();
    await devnet.chain.pauseMining();
    await killedOnce(payment, async () => {
      const { pending } = await devnet.chain.client.getTxpoolStatus();
      return pending === 1;
    });
    await gateway.process.waitForEvent("payment.settled_again");
    expect(await chargesOf(payment.payer)).toBe(0);
    await devnet.chain.resumeMining();
    await expectOneJob(payment);
  });

  test("the money has moved, and the gateway does not know", async () => {
    await devnet.control.fault({ on: "settle", kind: "slow", replyDelayMs: 2500, times: 1 });
    const payment = await aPayment();
    await killedOnce(payment, async () => (await chargesOf(payment.payer)) === 1);
    await expectOneJob(payment);
  });
});

describe("killed at this instant of a paid request, the payment is one charge and one job", () => {
  test.each(AFTER_CLAIM)("%s: the job runs though the client never comes again", async (point) => {
    const { payer, header } = await diesAt(point, (payment) => post(payment.header));
    const callId = await inState(payer, "INJECTED");
    expect([effectsOf(callId), await chargesOf(payer)]).toEqual([1, 1]);

    const again = await post(header);
    expect([again.status, again.json()["call_id"]]).toEqual([202, callId]);
    expect([effectsOf(callId), await chargesOf(payer)]).toEqual([1, 1]);
  });

  test("x402.after_verify: nobody is charged, and the same payment can be sent again", async () => {
    const { payer, header } = await diesAt("x402.after_verify", (payment) => post(payment.header));
    expect([await chargesOf(payer), await paymentOf(payer)]).toEqual([0, undefined]);
    expect((await post(header)).status).toBe(202);
    const callId = await inState(payer, "INJECTED");
    expect([effectsOf(callId), await chargesOf(payer)]).toEqual([1, 1]);
  });

  test("x402.after_evidence: another look finds the same", async () => {
    await devnet.control.fault({ on: "settle", kind: "drop", acts: true, times: 1 });
    const { payer } = await diesAt("x402.after_evidence", async ({ header }) => {
      expect((await post(header)).status).toBe(503);
      await gateway.process.exit;
    });
    const callId = await inState(payer, "INJECTED");
    expect([effectsOf(callId), await chargesOf(payer)]).toEqual([1, 1]);
  });

  // The last one: from here on the chain's time is ahead of ours, and no payment would last.
  test("x402.after_void: a payment that is over stays over", async () => {
    await devnet.control.fault({ on: "settle", kind: "drop" });
    const { payer, header } = await diesAt("x402.after_void", async ({ header }) => {
      expect((await post(header)).status).toBe(503);
      await devnet.chain.increaseTime(120);
      await devnet.chain.mine(5);
      await gateway.process.exit;
    });
    await inState(payer, "VOID");
    expect([await chargesOf(payer), (await post(header)).json()["code"]]).toEqual([0, "payment.void"]);
    expect(await redis.scard(`{postern}:payments:open:${payer}`)).toBe(0);
  });
});
