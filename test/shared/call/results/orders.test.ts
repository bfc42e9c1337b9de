import { beforeAll, beforeEach, expect, test } from "vitest";
import { createEnqueue } from "../../../../services/webhooks-gateway/enqueue.ts";
import { markOf, type ResultMark } from "../../../../shared/call/results/answer.ts";
import { createResults, type ResultRead, type Results } from "../../../../shared/call/results/store.ts";
import type { DeliverResult, Delivery } from "../../../../shared/call-search/deliver-result.ts";
import { silentLogger } from "../../../../shared/platform/log/logger.ts";
import { systemClock } from "../../../../shared/platform/time/clock.ts";
import { openBackends, type QueueBackend } from "../../../../shared/queue/backend.ts";
import type { FailedRef } from "../../../../shared/queue/call-record.ts";
import { type CallRecords, createCallRecords } from "../../../../shared/queue/call-record.ts";
import { createDiscard } from "../../../../shared/queue/discard.ts";
import type { Operate } from "../../../../shared/queue/operate.ts";
import { createReplay } from "../../../../shared/queue/replay.ts";
import { aCall } from "../../../fixtures/producer.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";
import { LONG_RUN, sample } from "../../../support/long-run.ts";
import { deliverResultOn, WORK } from "../../../support/results.ts";

/*
 * Several parties can write a call's result: a producer that has lost the call may still report a 2xx, and another producer a
 * failure. The runner may deliver a result, and an operator may replay or discard the call. These tests run such steps in
 * every order on a real Redis.
 */

const redis = useRedis();
const QUEUE = "webhook/7/1";
const TOKEN = "worker:1";
const DELIVERY: Delivery = {
  ...{ kind: "answer", status: 200, contentType: "text/plain", at: 1, by: "delivery" },
  body: Buffer.from("delivered"),
};
const FAILURE: Delivery = {
  ...{ kind: "failure", status: 500, contentType: undefined, at: 1, by: "delivery" },
  title: "The job failed",
};
const MARKS: Readonly<Record<string, ResultMark>> = {
  answered: markOf({ status: 200, body: "answered" }, 1000, 1),
  awaited: { known: "awaited" },
  gone: { known: "gone" },
};

let backend: QueueBackend;
let records: CallRecords;
let results: Results;
let deliver: DeliverResult;
let replay: Operate;
let discard: Operate;

beforeAll(() => {
  const { partition } = redis;
  backend = openBackends(partition, WORK)(QUEUE);
  records = createCallRecords(partition);
  results = createResults(partition);
  deliver = deliverResultOn(partition);
  const operator = { partition, clock: systemClock, log: silentLogger, by: "test" };
  replay = createReplay(operator);
  discard = createDiscard(operator);
});
beforeEach(() => redis.client.flushdb());

async function failedRef(id: string): Promise<FailedRef | undefined> {
  const score = await redis.client.zscore(keys.inQueue(QUEUE, "failed"), id);
  return score === null ? undefined : { id, queue: QUEUE, failedAt: Number(score) };
}

async function operate(by: Operate, id: string): Promise<string> {
  const failed = await failedRef(id);
  return failed === undefined ? "left" : by(failed as never, { selection: "test", reason: "test" });
}

type Step = "deliver" | "deliverFailure" | "mark" | "fail" | "replay" | "discard";

/** Each step resolves with its outcome. */
const STEPS: Readonly<Record<Step, (id: string, mark: ResultMark) => Promise<string>>> = {
  deliver: (id) => deliver(id, DELIVERY),
  deliverFailure: (id) => deliver(id, FAILURE),
  async mark(id, result) {
    const done = backend.injected(id, TOKEN, {
      fetchNext: undefined,
      windowMs: 60_000,
      retried: true,
      result,
    });
    await done.catch(() => {});
    return "done";
  },
  async fail(id) {
    await records.failed({ id, queue: QUEUE }, Date.now(), { keepsResult: true, code: "runner.failed" });
    const job = { id, opts: { attempts: 1 } } as Parameters<QueueBackend["moveToFailed"]>[0];
    await backend.moveToFailed(job, "runner.failed", false, TOKEN, false).catch(() => {});
    return "done";
  },
  replay: (id) => operate(replay, id),
  discard: (id) => operate(discard, id),
};

type Outcome = { order: readonly Step[]; outcomes: readonly string[]; read: ResultRead; st: string | null };

/** Runs these steps on a call that a worker has in flight. */
async function play(order: readonly Step[], mark: ResultMark, claimed: boolean): Promise<Outcome> {
  const call = aCall({ keep_result: true });
  const claim = { by: "test", bodySha256: call.sha256, windowMs: 60_000 };
  await createEnqueue(redis.partition)(call, claimed ? claim : undefined);
  await backend.fetch(TOKEN, { bytes: undefined, alone: false });
  const outcomes: string[] = [];
  for (const step of order) outcomes.push(await STEPS[step](call.id, mark));
  const read = await results.read(call.id);
  const st = await redis.client.hget(keys.record(call.id), "st");
  await redis.client.flushdb();
  return { order, outcomes, read, st };
}

function permutations<Item>(items: readonly Item[]): Item[][] {
  if (items.length === 0) return [[]];
  return items.flatMap((item, i) => permutations(items.toSpliced(i, 1)).map((rest) => [item, ...rest]));
}

/** All orders of all subsets of these steps. */
function ordersOf(steps: readonly Step[]): Step[][] {
  const choices = Array.from({ length: 2 ** steps.length }, (_, set) =>
    steps.filter((_step, i) => Math.floor(set / 2 ** i) % 2 === 1),
  );
  return choices.flatMap(permutations);
}

const VARIANTS = Object.entries(MARKS).flatMap(([name, mark]) =>
  [true, false].map((claimed) => ({ name, mark, claimed })),
);

const SETS: readonly (readonly Step[])[] = [
  ["deliver", "mark"],
  ["deliver", "fail"],
  ["mark", "fail"],
  ["deliver", "mark", "fail"],
  ["deliverFailure", "mark"],
  ["deliverFailure", "mark", "fail"],
  ["deliverFailure", "deliver"],
  ["deliverFailure", "deliver", "mark", "fail"],
];

test.each(sample(VARIANTS))(
  "the result of a call does not depend on the order of a delivery, a 2xx ($name) and a failure (with a record: $claimed)",
  async ({ mark, claimed }) => {
    for (const steps of SETS) {
      const outcomes: unknown[] = [];
      for (const order of permutations(steps)) {
        const { read, st } = await play(order, mark, claimed);
        outcomes.push({ read: untimed(read), st });
      }
      for (const outcome of outcomes) expect(outcome).toEqual(outcomes[0]);
      if (steps.includes("deliver"))
        expect(outcomes[0]).toMatchObject({ read: { body: DELIVERY.kind === "answer" && DELIVERY.body } });
      else if (steps.includes("deliverFailure"))
        expect(outcomes[0]).toMatchObject({ read: { kind: "failure", title: "The job failed" } });
    }
  },
);

function untimed(read: ResultRead): object {
  return { ...read, at: 0, changedAt: 0 };
}

/** All orders in the long run, and otherwise every seventh. */
const ORDERS = [
  ...ordersOf(["deliver", "mark", "fail", "replay", "discard"]),
  ...ordersOf(["deliver", "deliverFailure", "fail", "discard"]),
].filter((_order, at) => LONG_RUN || at % 7 === 0);

test.each(sample(VARIANTS))(
  "no order of a delivery, a 2xx ($name), a failure, a replay and a discard loses a result or shows a wrong one (with a record: $claimed)",
  async ({ name, mark, claimed }) => {
    for (const order of ORDERS) {
      const outcome = await play(order, mark, claimed);
      expect({ ...outcome, read: outcome.read.kind, by: by(outcome.read) }).toMatchObject(
        expected(outcome, name, claimed ? "pending" : "unknown"),
      );
    }
  },
);

function by(read: ResultRead): string | undefined {
  return read.kind === "answer" ? read.body.toString() : undefined;
}

/** The result that a reader must get, given the outcome of each step. `open` is what a reader gets if no step had an effect. */
function expected({ order, outcomes }: Outcome, mark: string, open: string): { read: string; by?: string } {
  const at = (step: Step, how: string) => order.findIndex((each, i) => each === step && outcomes[i] === how);
  const [delivered, discarded, marked] = [at("deliver", "stored"), at("discard", "done"), at("mark", "done")];
  if (delivered > discarded) return { read: "answer", by: "delivered" };
  const failureDelivered = at("deliverFailure", "stored");
  if (failureDelivered > discarded) return { read: "failure" };
  const wasRemoved = delivered >= 0 || failureDelivered >= 0;
  if (marked >= 0) {
    if (mark === "answered") return { read: "answer", by: "answered" };
    return { read: mark === "awaited" && !wasRemoved ? "pending" : "gone" };
  }
  const [failed, replayed] = [at("fail", "done"), at("replay", "done")];
  if (failed < 0) return { read: open };
  return { read: discarded < 0 && replayed > failed ? "pending" : "failed" };
}

test.each(["REFUND_PENDING", "REFUNDED"])("a late 2xx leaves no result of a call that is %s", async (st) => {
  const call = aCall({ keep_result: true });
  await redis.client.hset(keys.record(call.id), { v: "2", st });
  const mark = MARKS["answered"] as ResultMark;
  await STEPS.mark(call.id, mark);
  expect(await redis.client.hmget(keys.record(call.id), "st", "rs")).toEqual([st, "gone"]);
  expect(await redis.client.exists(keys.result(call.id))).toBe(0);
});
