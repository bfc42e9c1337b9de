import { beforeAll, expect, test } from "vitest";
import type { Part } from "../../../shared/dev/process.ts";
import { untilReady, untilSelling } from "../../../shared/dev/stack.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { paymentCallId } from "../../../shared/payments/payment.ts";
import { sha256Hex } from "../../../shared/platform/crypto/compare.ts";
import { useDevnet } from "../../fixtures/devnet.ts";
import { keys } from "../../fixtures/redis.ts";
import { useStack } from "../../fixtures/stack.ts";
import { type Books, violationsIn } from "../../support/books.ts";
import { setAnswers } from "../../support/wallets.ts";
import {
  type Customer,
  newCustomer,
  PAYER_KINDS,
  sellingToAllKinds,
  transfersOfAllKinds,
} from "../payers.ts";
import { type Buyer, createBuyer, NOW_AND_THEN, type Plan, type Purchase } from "./buyer.ts";
import { seeded } from "./seeded.ts";
import { untilDrained } from "./until-drained.ts";

/** POSTERN_TEST_SEED changes the order of events. */
const SEED = Number(process.env["POSTERN_TEST_SEED"] ?? 402);
const PAYERS = 40;
/** Every eighth payer has no money. The facilitator finds out before any settle. */
const POOR_EVERY = 8;
const COPIES = 4;
const AT_ONCE = 16;
const FAULT_ONCE_IN = 3;
const PATH = "/x402/jobs/1/1";

const chance = seeded(SEED);

const devnet = useDevnet();
const stack = useStack(() => ({
  endpoints: [{ path: "/hook", job_id: 1, auth: "none" }],
  x402: sellingToAllKinds(devnet),
  producers: 2,
  drainSecs: 0.3,
}));
let buyer: Buyer;
/** A customer's plan to buy. */
type Wish = Plan & { customer: Customer; poor: boolean };
type Bought = Purchase & { customer: Customer };
let plans: Wish[];
const underWay = new Set<Promise<unknown>>();
/** No purchase begins before this resolves. */
let open: Promise<unknown> = Promise.resolve();

beforeAll(async () => {
  buyer = createBuyer({ devnet, path: PATH });
  const kinds = chance.shuffle(
    Array.from({ length: PAYERS }, (_, i) => PAYER_KINDS[i % PAYER_KINDS.length] ?? "key"),
  );
  const customers = await Promise.all(
    kinds.map(async (kind, i) => {
      const poor = i % POOR_EVERY === POOR_EVERY - 1;
      return { poor, customer: await newCustomer(devnet, kind, poor ? { tokens: 0n } : {}) };
    }),
  );
  await Promise.all(stack.x402.map(untilSelling));
  plans = chance.shuffle(
    customers.flatMap(({ poor, customer }, i) =>
      // Tokens of Permit2 are sold only in version 2.
      (customer.kind === "permit2" ? ([2, 2] as const) : ([1, 2] as const)).map((version, n) => {
        const { payer, asset } = customer;
        return {
          poor,
          customer,
          payer,
          asset,
          version,
          body: `of payer ${i}, the ${n}th, version ${version}`,
        };
      }),
    ),
  );
});

/**
 * Sends SIGTERM while the gateway settles a payment. Checks that this settle is finished and answered before the
 * gateway exits.
 */
async function stopMidSettle(gateway: Part, purchase: () => Promise<Bought>): Promise<Bought> {
  await untilReady(gateway);
  await untilSelling(gateway);
  await devnet.control.clearFaults();
  await devnet.control.fault({ on: "settle", kind: "slow", delayMs: 400 });
  const inHand = await purchase();
  const answered = buyer.post(gateway, inHand);
  await buyer.untilDispatched(inHand);
  expect(await gateway.kill("SIGTERM")).toEqual({ code: 0, signal: null });
  expect((await answered)?.status).toBe(202);
  await devnet.control.clearFaults();
  return inHand;
}

/** Returns the faults of the fleet, in order, each after this many purchases. */
function disastersOf(bought: Bought[]) {
  const [first, second] = stack.x402 as [Part, Part];
  const inHand = async () => {
    const customer = await newCustomer(devnet, chance.pick(PAYER_KINDS));
    const { payer, asset } = customer;
    const plan = { payer, asset, version: 2, body: "in hand when it was told to stop" } as const;
    return { ...(await buyer.sign(second, plan)), customer };
  };
  const strikes = [
    () => first.restart(),
    async () => {
      // Other purchases wait for this answer, because their settles would count into its time-out.
      const stopped = Promise.all(underWay).then(() => stopMidSettle(second, inHand));
      open = stopped;
      bought.push(await stopped);
      await second.restart();
    },
    () => stack.producers[0]?.restart(),
    async () => {
      expect(await stack.denials()).toEqual([]);
      await stack.redis.server.kill("SIGKILL");
      await stack.redis.server.restart();
    },
  ];
  const every = Math.floor(plans.length / (strikes.length + 1));
  return chance.shuffle(strikes).map((strike, i) => ({ after: every * (i + 1), strike }));
}

async function purchaseOf(plan: Wish): Promise<Bought> {
  if (chance.onceIn(FAULT_ONCE_IN)) await devnet.control.fault(chance.pick(NOW_AND_THEN));
  const purchase = await buyer.sign(chance.pick(stack.x402), plan);
  await buyer.buy(stack.x402, purchase, COPIES);
  return { ...purchase, customer: plan.customer };
}

async function buyAll(): Promise<Bought[]> {
  const bought: Bought[] = [];
  const disasters = disastersOf(bought);
  let struck: Promise<unknown> = Promise.resolve();
  let before: Promise<unknown> = struck;
  let done = 0;
  const left = plans.values();
  const shopper = async () => {
    for (const plan of left) {
      await before; // so that customers are buying during each fault
      await open;
      const purchase = purchaseOf(plan);
      underWay.add(purchase);
      bought.push(await purchase);
      underWay.delete(purchase);
      done++;
      const due = disasters.find(({ after }) => after === done);
      if (due === undefined) continue;
      before = struck;
      struck = before.then(due.strike);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, shopper));
  await struck;
  await devnet.control.clearFaults();
  return bought;
}

/** Makes every wallet that has bought deny its signatures, and sends its payments to both gateways again. */
async function repeatDenied(bought: readonly Bought[]): Promise<number> {
  const ofWallets = bought.filter(({ customer }) => customer.kind === "wallet");
  for (const wallet of new Set(ofWallets.map(({ customer }) => customer)))
    if (wallet.kind === "wallet") await setAnswers(devnet, wallet.payer, "Never");
  await Promise.all(ofWallets.map((purchase) => buyer.buy(stack.x402, purchase, stack.x402.length)));
  return ofWallets.length;
}

async function booksOf(bought: readonly Purchase[]): Promise<Books> {
  const { chainId, token } = devnet;
  return {
    chainId,
    asset: token,
    transfers: await transfersOfAllKinds(devnet),
    calls: stack.effects().map(({ callId }) => callId),
    told: bought.flatMap(({ told }) => told),
    voids: [],
  };
}

/** Makes the reconcilers look at all payments that they still watch, and checks that nothing is left to do. */
async function untilReconciled(): Promise<void> {
  for (const id of await stack.redis.client.zrange(keys.paymentsDue, "0", "-1"))
    await stack.redis.client.zadd(keys.paymentsDue, "XX", 0, id);
  await eventually("nothing is due", async () => (await stack.redis.client.zcard(keys.paymentsDue)) === 0);
}

test("every payment is one charge, one job and one answer, even if gateways, a producer, Redis and the facilitator fail", {
  timeout: 300_000,
}, async () => {
  const bought = await buyAll();
  const poor = new Set(plans.filter((plan) => plan.poor).map(({ payer }) => payer.address.toLowerCase()));
  const [refused, paid] = [true, false].map((is) =>
    bought.filter((each) => poor.has(each.payment.payer) === is),
  );
  expect([refused?.length, paid?.length]).toEqual([2 * poor.size, plans.length - 2 * poor.size + 1]);

  expect(await repeatDenied(paid ?? [])).toBeGreaterThan(0);

  const counts = await untilDrained(stack.redis, "x402");
  expect(counts).toMatchObject({ waiting: 0, active: 0, delayed: 0, failed: 0 });
  expect(violationsIn(await booksOf(bought))).toEqual([]);
  await untilReconciled();
  expect(violationsIn(await booksOf(bought))).toEqual([]);

  for (const { payment, callIds, told, body, customer } of paid ?? []) {
    const id = paymentCallId({
      chainId: devnet.chainId,
      method: customer.kind === "permit2" ? "permit2" : "eip3009",
      asset: customer.asset,
      ...payment,
    });
    expect([...new Set(callIds)], "one call id for all copies").toEqual([id]);
    expect(told.filter(({ status }) => status !== 202 && status !== 503)).toEqual([]);
    const effects = stack.effects().filter(({ callId }) => callId === id);
    expect(effects.map(({ sha256 }) => sha256)).toEqual([sha256Hex(Buffer.from(body))]);
    expect(await stack.redis.client.hget(keys.record(id), "st")).toBe("INJECTED");
  }
  for (const { told } of refused ?? []) {
    const finals = told.filter(({ status }) => status !== 503);
    expect(finals.map(({ code }) => code)).toEqual(Array(COPIES).fill("payment.rejected"));
  }
  const left = [keys.paymentsUnresolved, keys.paymentsInReview];
  expect(await Promise.all(left.map((key) => stack.redis.client.zcard(key)))).toEqual([0, 0]);
  expect(
    bought.some(({ unanswered }) => unanswered > 0),
    "some were cut off",
  ).toBe(true);
  expect(bought.some(({ told }) => told.some(({ status }) => status === 503))).toBe(true);
});
