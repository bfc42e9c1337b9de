import { setTimeout as pause } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import { createResults } from "../../../shared/call/results/store.ts";
import type { Part } from "../../../shared/dev/process.ts";
import { untilReady, untilSelling } from "../../../shared/dev/stack.ts";
import type { Failpoint } from "../../../shared/platform/lifecycle/failpoint.ts";
import { within } from "../../../shared/platform/time/clock.ts";
import type { EndpointState } from "../../../shared/queue/endpoints.ts";
import { useDevnet } from "../../fixtures/devnet.ts";
import { CONSOLE_TOKEN, useStack } from "../../fixtures/stack.ts";
import { violationsIn } from "../../support/books.ts";
import { send } from "../../support/http.ts";
import { setAnswers } from "../../support/wallets.ts";
import { createBuyer, type Purchase } from "../fleet/buyer.ts";
import { seeded } from "../fleet/seeded.ts";
import { untilDrained } from "../fleet/until-drained.ts";
import {
  type Customer,
  newCustomer,
  PAYER_KINDS,
  sellingToAllKinds,
  transfersOfAllKinds,
} from "../payers.ts";

/** POSTERN_TEST_KILLS and POSTERN_TEST_SEED make it longer, and another one. */
const KILLS = Number(process.env["POSTERN_TEST_KILLS"] ?? 20);
const SEED = Number(process.env["POSTERN_TEST_SEED"] ?? 15);
const MINUTES_MAX = 2 + KILLS / 4;
const SENDERS = 16;
/** Of each kind at least one. */
const PAYERS = 5;
/** So often a wallet says after a purchase that it has signed nothing, and the payment is sent again. */
const DENIED_ONCE_IN = 2;
/** For any number of kills: some 300,000 jobs. */
const ENOUGH_TOKENS = 1_000_000_000_000n;
const RETRY_PAUSE_MS = 50;
const AS_OPERATOR = { Authorization: `Bearer ${CONSOLE_TOKEN}`, "Content-Type": "application/json" };
/** A failpoint that nothing reaches in this time is left alone. */
const REACHED_MS = 10_000;

const POINTS: Readonly<Record<"gateway" | "x402" | "producer" | "console", readonly Failpoint[]>> = {
  gateway: ["gateway.before_add", "gateway.after_add", "gateway.after_answer"],
  x402: [
    "x402.after_verify",
    "x402.after_claim",
    "x402.after_settle",
    "x402.after_queued",
    "x402.after_answer",
  ],
  producer: [
    "producer.after_wake",
    "producer.after_poll",
    "producer.after_fetch",
    "producer.after_take",
    "producer.before_post",
    "producer.after_post",
    "producer.after_finish",
  ],
  console: ["operator.after_released"],
};

const chance = seeded(SEED);
const devnet = useDevnet();
const stack = useStack(() => ({
  endpoints: [
    { path: "/hook", job_id: 1, auth: "none", idempotency_header: "X-Delivery-Id", keep_result: true },
  ],
  x402: sellingToAllKinds(devnet),
  gateways: 2,
  producers: 2,
  consoles: 1,
}));
beforeAll(() => Promise.all(stack.x402.map(untilSelling)));

let isOver = false;

/** Sends one delivery after the other, each until it has its 202. Resolves with their calls. */
async function deliverAll(sender: number): Promise<string[]> {
  const callIds: string[] = [];
  for (let n = 0; !isOver; n++) {
    callIds.push(await deliver(`${sender}-${n}`));
  }
  return callIds;
}

async function deliver(id: string): Promise<string> {
  for (;;) {
    const gateway = chance.pick(stack.gateways);
    const request = { path: "/hook", headers: { "X-Delivery-Id": id }, body: `of ${id}` };
    const answer = await send(gateway.address, request).catch(() => undefined);
    if (answer?.status === 202) return String(answer.json()["call_id"]);
    await pause(RETRY_PAUSE_MS);
  }
}

/** Gives the endpoint of the webhooks this state, as soon as the console can. */
async function setState(state: EndpointState): Promise<void> {
  const order = { path: "/hook", state, reason: "a test" };
  const request = { path: "/api/v1/endpoints/state", headers: AS_OPERATOR, body: JSON.stringify(order) };
  for (;;) {
    const answer = await send(stack.consoles[0]?.address ?? "", request).catch(() => undefined);
    if (answer?.status === 200) return;
    await pause(RETRY_PAUSE_MS);
  }
}

/** Holds the endpoint again and again, or disables it, and enables it a moment later. */
async function operate(): Promise<void> {
  while (!isOver) {
    await setState(chance.pick(["held", "held", "disabled"]));
    await pause(100 * chance.pick([1, 5, 20]));
    await setState("enabled");
    await pause(100 * chance.pick([1, 5, 20]));
  }
}

const buyer = createBuyer({ devnet, path: "/x402/jobs/1/1" });

/** Buys one job after the other, and sends each payment twice at once until both have an answer. */
async function buyAll(payerIndex: number): Promise<Purchase[]> {
  const kind = PAYER_KINDS[(payerIndex + SEED) % PAYER_KINDS.length] ?? "key";
  const customer = await newCustomer(devnet, kind, { tokens: ENOUGH_TOKENS, deployed: false });
  const { payer, asset } = customer;
  const bought: Purchase[] = [];
  for (let n = 0; !isOver; n++) {
    const plan = { payer, asset, version: 2, body: `the ${n}th` } as const;
    const purchase = await buyer.sign(chance.pick(stack.x402), plan);
    await buyer.buy(stack.x402, purchase, 2);
    if (chance.onceIn(DENIED_ONCE_IN)) await repeatDenied(customer, purchase);
    bought.push(purchase);
  }
  return bought;
}

/** A wallet denies for a while what it has signed, and what it has bought is asked for again at both gateways. */
async function repeatDenied({ kind, payer }: Customer, purchase: Purchase): Promise<void> {
  if (kind !== "wallet") return;
  await setAnswers(devnet, payer, "Never");
  await buyer.buy(stack.x402, purchase, stack.x402.length);
  await setAnswers(devnet, payer, "Truly");
}

/** Answers what was killed, and where. */
async function kill(): Promise<string> {
  await pause(100 * chance.pick([0, 1, 2, 5]));
  const kind = chance.pick(["gateway", "x402", "producer", "console", "redis"] as const);
  if (kind === "redis") {
    await stack.redis.server.kill("SIGKILL");
    await stack.redis.server.restart();
    return kind;
  }
  const { gateways, x402, producers, consoles } = stack;
  const parts = { gateway: gateways, x402, producer: producers, console: consoles }[kind];
  const part: Part = chance.pick(parts);
  const point = chance.pick(POINTS[kind]);
  // Some points come before a part says that it has started.
  const died = part.restart({ POSTERN_FAILPOINT: point }).then(
    () => part.process.exit,
    () => {},
  );
  const end = await within(REACHED_MS, died);
  await part.restart();
  return `${point}${end.kind === "done" ? "" : ", not reached"}`;
}

/** Those of which the job's answer is not kept. */
async function withoutResult(callIds: readonly string[]): Promise<object[]> {
  const results = createResults(stack.redis.partition);
  const read = await Promise.all(callIds.map(async (id) => ({ id, ...(await results.read(id)) })));
  return read.filter(
    (each) => each.kind !== "answer" || each.body.toString() !== JSON.stringify({ done: each.id }),
  );
}

test("gateways, producers, consoles and Redis that are killed again and again under load, while an endpoint is held and enabled, lose and double nothing", {
  timeout: MINUTES_MAX * 60_000,
}, async () => {
  const delivering = Promise.all(Array.from({ length: SENDERS }, (_, i) => deliverAll(i)));
  const buying = Promise.all(Array.from({ length: PAYERS }, (_, i) => buyAll(i)));
  const operating = operate();
  const killed: string[] = [];
  while (killed.length < KILLS) killed.push(await kill());
  const { gateways, producers, x402, consoles } = stack;
  await Promise.all([...gateways, ...producers, ...x402, ...consoles].map(untilReady));
  isOver = true;
  await operating;
  const [delivered, bought] = [(await delivering).flat(), (await buying).flat()];

  for (const origin of ["webhook", "x402"] as const)
    expect(await untilDrained(stack.redis.url, origin)).toMatchObject({ failed: 0 });
  const { chainId, token } = devnet;
  const sold = new Set(bought.flatMap(({ callIds }) => callIds));
  const effects = stack.effects().map(({ callId }) => callId);
  const repeats = bought.reduce((count, { told }) => count + told.length, 0);
  const sales = `${bought.length} bought (${repeats} answers)`;
  const seen = `after ${killed.join("; ")}: ${delivered.length} delivered, ${sales}`;
  if (process.env["POSTERN_TEST_KILLS"] !== undefined) console.log(seen);
  expect(
    stack.effectsOf(delivered).filter((count) => count !== 1),
    seen,
  ).toEqual([]);
  expect(effects.filter((id) => !sold.has(id)).length, seen).toBe(delivered.length);
  expect(await withoutResult(effects), seen).toEqual([]);
  expect(
    bought.flatMap(({ told }) => told.filter(({ status }) => status !== 202 && status !== 503)),
    seen,
  ).toEqual([]);
  expect(
    violationsIn({
      ...{ chainId, asset: token, voids: [] },
      transfers: await transfersOfAllKinds(devnet),
      calls: effects.filter((id) => sold.has(id)),
      told: bought.flatMap(({ told }) => told),
    }),
    seen,
  ).toEqual([]);
});
