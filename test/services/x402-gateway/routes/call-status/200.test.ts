import type { TomlTable } from "smol-toml";
import { beforeEach, expect, test } from "vitest";
import { type Inject, Refused } from "../../../../../services/producer/producer.ts";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { systemClock } from "../../../../../shared/platform/time/clock.ts";
import { createDiscard } from "../../../../../shared/queue/discard.ts";
import { createFailedCalls } from "../../../../../shared/queue/failed.ts";
import { openRegistry } from "../../../../../shared/queue/registry.ts";
import { partitionOf } from "../../../../../shared/redis/partition.ts";
import { useInjecting } from "../../../../fixtures/injecting.ts";
import { keys } from "../../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../../fixtures/redis-proxy.ts";
import { idIn, type TestX402, useX402 } from "../../../../fixtures/x402.ts";
import { paymentIn } from "../../../../support/books.ts";
import { type Answer, send } from "../../../../support/http.ts";
import { sample } from "../../../../support/long-run.ts";
import { recordingLog } from "../../../../support/recording-log.ts";

const fixture = useX402();
const proxy = useRedisProxy(fixture.redis);
const startInjecting = useInjecting(fixture.redis, "x402");
let x402: TestX402;
let headers: Record<string, string>;

async function start(settings: TomlTable = {}): Promise<void> {
  x402 = await fixture.gateway({
    ...{ redisUrl: proxy.url, directUrl: fixture.redis.url, enqueueTimeoutMs: 500 },
    x402: settings,
  });
  headers = await x402.pay({ payer: fixture.payer });
}

beforeEach(() => start());

/** Creates a claimed payment with an unknown outcome. */
async function ofUnknownOutcome(): Promise<Answer> {
  await fixture.stop(x402);
  await start({ settle_timeout_secs: 1 });
  await fixture.devnet.control.fault({ on: "settle", kind: "drop" });
  return x402.post(headers);
}

/** Returns the public status of the call in this answer. */
async function stateOf(answer: Answer): Promise<unknown> {
  const { pathname } = new URL(String(answer.json()["status_url"]));
  const told = await send(x402.address, { method: "GET", path: pathname });
  expect(told.status).toBe(200);
  return told.json()["state"];
}

/** Starts a producer that takes the calls from now on, so that the fixture does not count them as waiting. */
async function producer(inject: Inject): Promise<void> {
  fixture.foreign.push(paymentIn(headers)?.nonce ?? "");
  await startInjecting(inject);
}

const refuse: Inject = async () => {
  throw new Refused("no such job");
};

async function discardFailed(): Promise<void> {
  const partition = partitionOf(x402.redis);
  const calls = createFailedCalls(partition);
  const discard = createDiscard({ partition, clock: systemClock, log: recordingLog(), by: "a test" });
  const id = String((await x402.queues.jobs("failed"))[0]?.id);
  const failed = await calls.find(id);
  if (failed === undefined) throw new Error(`${id} is not failed`);
  expect(await discard(failed, { selection: "by id", reason: "not wanted" })).toBe("done");
}

/** Longer than the lease of a reconciler on a payment that it checks. */
const LEASE_MS = 60_000;

/** Waits until the reconciler has checked the payment and has scheduled the next check or none. */
async function reconcilerHasLooked(id: string): Promise<void> {
  const lookNow = () => x402.redis.zadd(keys.paymentsDue, "XX", 0, id);
  await lookNow();
  await eventually("it has looked", async () => {
    const due = await x402.redis.zscore(keys.paymentsDue, id);
    const hasLooked = due === null || Number(due) > Date.now() + LEASE_MS;
    // If the chain was a block behind, the next check comes seconds later.
    if (!hasLooked) await lookNow();
    return hasLooked;
  });
}

const isFailed = async () => (await x402.queues.countIn("failed")) === 1;

test("a paid call's status shows only its id and state to a client without a proof", async () => {
  const answer = await x402.post(headers);
  const { pathname } = new URL(String(answer.json()["status_url"]));
  const told = await send(x402.address, { method: "GET", path: pathname });
  expect(told.status).toBe(200);
  expect(told.json()).toEqual({ call_id: answer.json()["call_id"], state: "queued" });
});

const states: Record<string, () => Promise<Answer>> = {
  settling: ofUnknownOutcome,
  queued: () => x402.post(headers),
  async failed() {
    await producer(refuse);
    const answer = await x402.post(headers);
    await eventually("it is failed", isFailed);
    return answer;
  },
  async injected() {
    await producer(async () => {});
    return x402.post(headers);
  },
  async discarded() {
    await producer(refuse);
    const answer = await x402.post(headers);
    await eventually("it is failed", isFailed);
    await discardFailed();
    return answer;
  },
  async void() {
    const answer = await ofUnknownOutcome();
    await fixture.devnet.chain.cancelAuthorization(fixture.payer, paymentIn(headers)?.nonce as `0x${string}`);
    await fixture.devnet.chain.finalize();
    return answer;
  },
  async review() {
    const answer = await ofUnknownOutcome();
    await x402.journal.markForReview(idIn(answer), "a contradiction");
    return answer;
  },
};
test.each(sample(Object.entries(states), 2))(
  "a paid call's status is %s when that is its state",
  async (state, bring) => {
    const answer = await bring();
    await eventually(`it says ${state}`, async () => {
      if (state === "void") x402.skip(200);
      return (await stateOf(answer)) === state;
    });
    proxy.onCommand = () => undefined;
    await fixture.devnet.control.clearFaults();
    await eventually("the check in flight has ended", async () => {
      x402.skip(200);
      const now = await stateOf(answer);
      return now !== "settling";
    });
  },
);

test("a paid call that an operator discards is reported as discarded, also to a repeat, and does not run again", async () => {
  await producer(refuse);
  const id = String((await x402.post(headers)).json()["call_id"]);
  await eventually("it is failed", isFailed);
  await reconcilerHasLooked(id);
  expect(await isFailed(), "one that is failed is the operator's").toBe(true);
  const failed = await x402.post(headers);
  expect([failed.status, failed.json()["status"]]).toEqual([202, "failed"]);

  await discardFailed();
  await reconcilerHasLooked(id);
  const again = await x402.post(headers);
  expect([again.status, again.json()["status"], again.json()["call_id"]]).toEqual([202, "discarded", id]);
  expect(await stateOf(again)).toBe("discarded");
  expect(await openRegistry(partitionOf(x402.redis)).find(id)).toBeUndefined();
  const payment = await x402.journal.find(id);
  expect([payment?.state, payment?.call]).toEqual(["DISCARDED", undefined]);
  expect((await fixture.asked()).settle).toBe(1);
});
