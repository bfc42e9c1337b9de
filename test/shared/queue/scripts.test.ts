import {
  type JobJson,
  type MinimalJob,
  type QueueBaseOptions,
  QueueKeys,
  RedisConnection,
  RedisQueueBackend,
} from "bullmq";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createEnqueue, type Idempotency } from "../../../services/webhooks-gateway/enqueue.ts";
import { type JobCall, toJson } from "../../../shared/call/job-call.ts";
import { PaymentJournal } from "../../../shared/payments/journal.ts";
import type { Settlement } from "../../../shared/payments/payment.ts";
import { openBackends } from "../../../shared/queue/backend.ts";
import { noteOf } from "../../../shared/queue/call-log.ts";
import { JOB_NAME, JOB_OPTIONS } from "../../../shared/queue/protocol.ts";
import { type QueueName, queueOf } from "../../../shared/queue/queue-name.ts";
import { type Partition, partitionOf } from "../../../shared/redis/partition.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { makePayment, UNBOUNDED } from "../../support/made-payment.ts";
import { contentsOf } from "../../support/redis-content.ts";
import { RESULT_LIMITS } from "../../support/results.ts";

/*
 * Our Lua wraps BullMQ's scripts, and must not change their effect. A call that our `add` has queued must look the same in
 * Redis as one that BullMQ's own `add` has queued. These tests also detect an update of BullMQ that renames or reorders the
 * arguments of its scripts.
 */
const QUEUE = "webhook/7/1";
const SECOND = "webhook/7/2";
const QUEUES: readonly QueueName[] = [QUEUE, SECOND, "x402/1/7"];
/** A time by the clock of this process, which differs from Redis' clock. */
const NOW = 1_900_000_000_000;
const MINUTE_MS = 60_000;
const WORK = {
  name: "a worker",
  lockDuration: 10_000,
  stalledInterval: 60_000,
  maxStalledCount: 1_000_000,
  results: RESULT_LIMITS,
};
const TOKEN = "the token of c_1";
const ID = "c_1";
const REASON = "runner.failed: it did";
const MADE = makePayment({ network: "eip155:1", asset: "0x1" });
const PAYMENT = { ...MADE, call: { ...MADE.call, accepted_at: 1 } };
const { network, payer } = PAYMENT.terms;
const SETTLEMENT: Settlement = { transaction: `0x${"ab".repeat(32)}`, network, payer, by: "chain" };

const redis = useRedis();
beforeEach(async () => {
  await redis.client.flushdb();
  vi.useFakeTimers({ toFake: ["Date"], now: NOW });
});
afterEach(() => {
  vi.useRealTimers();
});

/** One of the two implementations that are compared. Each has its own key prefix. */
type Side = {
  prefix: string;
  of(queue: QueueName): RedisQueueBackend;
  /** Adds these calls in one step. */
  add(calls: readonly JobCall[], claim: Idempotency | undefined): Promise<unknown>;
  /** Adds the call of a settled payment. */
  buy(): Promise<unknown>;
  /** Takes the next call of each of these queues in one step. Each take has the lock token of a call. */
  take(takes: readonly Take[]): Promise<unknown>;
  /** Ends these calls of QUEUE in one step, each with its token: as injected, or as completed without a runner's acceptance. */
  end(ids: readonly string[], options: { injected: boolean; fetches: boolean }): Promise<unknown>;
  /** Moves the failed call back to the queue. */
  replay(): Promise<unknown>;
  /** Starts these steps in this order without waiting for one another. */
  atOnce(steps: readonly Step[]): Promise<unknown>;
};

type Take = readonly [id: string, queue?: QueueName];

const tokenOf = (id: string) => `the token of ${id}`;

function ours(partition: Partition): Side {
  const of = openBackends(partition, WORK);
  const enqueue = createEnqueue(partition);
  const journal = new PaymentJournal(partition);
  const side: Side = {
    prefix: partition.prefix,
    of,
    add: (calls, claim) => Promise.all(calls.map((call) => enqueue(call, claim))),
    async buy() {
      await journal.claim(PAYMENT, { ...UNBOUNDED, by: "a test", dueInMs: 0 });
      const payment = await journal.findWithoutCall(PAYMENT.call.id);
      if (payment === undefined) throw new Error("the payment was not claimed");
      await journal.enqueueSettled(payment, { settlement: SETTLEMENT, proven: true }, { dueInMs: 0 });
    },
    take: (takes) =>
      Promise.all(
        takes.map(([id, queue = QUEUE]) => of(queue).fetch(tokenOf(id), { bytes: 1000, alone: false })),
      ),
    end: (ids, { injected, fetches }) => {
      const fetchNext = fetches ? { bytes: 1000 } : undefined;
      const ends = ids.map((id) =>
        injected
          ? of(QUEUE).injected(id, tokenOf(id), { fetchNext, retried: true })
          : of(QUEUE).ended(id, tokenOf(id), fetchNext),
      );
      return Promise.all(ends.map((end) => end.catch(refused)));
    },
    replay: () => of(QUEUE).replay(ID, noteOf("a test", "it is mended")),
    atOnce: (steps) => Promise.all(steps.map((step) => step(side))),
  };
  return side;
}

/** BullMQ alone, without our code. */
function bullmq(prefix: string): Side {
  const names = new QueueKeys(prefix);
  const skips = { skipVersionCheck: true, skipWaitingForReady: true };
  const connection = new RedisConnection(redis.client, { shared: true, blocking: false, ...skips });
  const options = { prefix, ...WORK, connection: redis.client } as QueueBaseOptions;
  const of: Side["of"] = (queue) => {
    const toKey = (type: string) => names.toKey(queue, type);
    return new RedisQueueBackend(connection, queue, names.getKeys(queue), toKey, options, undefined, false);
  };
  const add = async (calls: readonly JobCall[]) => {
    for (const call of calls) {
      const { id } = call;
      const opts = { ...JOB_OPTIONS, jobId: id };
      const job = { id, name: JOB_NAME, data: String(toJson(call)), opts, timestamp: NOW };
      await of(queueOf(call)).addJob(job as JobJson, id);
    }
  };
  const { call } = PAYMENT;
  const metadata = { "X-X402-TRANSACTION": SETTLEMENT.transaction, ...call.metadata };
  const take: Side["take"] = async (takes) => {
    for (const [id, queue = QUEUE] of takes) await of(queue).moveToActive(tokenOf(id), WORK.name);
  };
  const end: Side["end"] = async (ids, { fetches }) => {
    for (const id of ids) {
      const job = { id, opts: {} } as MinimalJob;
      await of(QUEUE).moveToCompleted(job, null, true, tokenOf(id), fetches).catch(refused);
    }
  };
  const atOnce: Side["atOnce"] = async (steps) => {
    for (const step of steps) await step(side);
  };
  const replay = () => of(QUEUE).retryFinishedJob(minimal(), "failed", { resetAttemptsMade: true });
  const side = { prefix, of, replay, add, buy: () => add([{ ...call, metadata }]), take, end, atOnce };
  return side;
}

/** Ignores the error with which BullMQ reports a call that is not in flight. Throws every other error. */
function refused(error: Error & { code?: number }): void {
  if (error.code === undefined || error.code >= 0) throw error;
}

type Step = (side: Side) => Promise<unknown>;

const callTo = (id: string, job_id = 1, body = "hello"): JobCall => {
  const { call } = makePayment({ network: "eip155:1", asset: "0x1", body: Buffer.from(body) });
  return { ...call, id, origin: "webhook", service_id: 7, job_id, accepted_at: 1 };
};
const claimOf = ({ sha256 }: JobCall): Idempotency => ({ by: "a test", bodySha256: sha256, windowMs: 1000 });

const CALL = callTo(ID);
const add =
  (...calls: JobCall[]): Step =>
  ({ add }) =>
    add(calls.length === 0 ? [CALL] : calls, undefined);
const claim: Step = ({ add }) => add([CALL], claimOf(CALL));
const buy: Step = ({ buy }) => buy();
const OTHER = callTo("c_2");
const THIRD = callTo("c_3");

const minimal = (id = ID) => ({ id, opts: { attempts: JOB_OPTIONS.attempts } }) as MinimalJob;
const takeAtOnce =
  (...takes: Take[]): Step =>
  ({ take }) =>
    take(takes);
const take = takeAtOnce([ID]);
const takeTwo = takeAtOnce([ID], ["c_2"]);
const finish =
  (fetches: boolean, ids = [ID], injected = true): Step =>
  ({ end }) =>
    end(ids, { fetches, injected });
const atOnce =
  (...steps: Step[]): Step =>
  (side) =>
    side.atOnce(steps);
const fail: Step = ({ of }) => of(QUEUE).moveToFailed(minimal(), REASON, false, TOKEN, false);
const retryLater: Step = ({ of }) =>
  of(QUEUE).moveToDelayed(ID, NOW, MINUTE_MS, TOKEN, { fieldsToUpdate: { failedReason: REASON } });
const postpone: Step = ({ of }) => of(QUEUE).moveToDelayed(ID, NOW, MINUTE_MS, TOKEN, { skipAttempt: true });
const back: Step = ({ of }) => of(QUEUE).moveJobFromActiveToWait(ID, TOKEN);
const replay: Step = ({ replay }) => replay();
/** Makes every call that waits for its delay due. */
const later: Step = async ({ prefix }) => {
  const delayed = `${prefix}:${QUEUE}:delayed`;
  for (const id of await redis.client.zrange(delayed, "0", "-1")) await redis.client.zadd(delayed, 1, id);
};
const lookForStalled: Step = async ({ of, prefix }) => {
  await redis.client.del(`${prefix}:${QUEUE}:stalled-check`);
  return of(QUEUE).moveStalledJobsToWait();
};
const loseLock: Step = ({ prefix }) => redis.client.del(`${prefix}:${QUEUE}:${ID}:lock`);

/** Keys that our scripts do not write: only BullMQ's Worker and QueueEvents read them, and Postern uses neither. */
const UNREAD = /:(events|marker)$/;

/**
 * The contents of all other keys that BullMQ's code writes. Times are rounded to minutes since `began`, because BullMQ's times are by the clock of
 * this process and ours by Redis'. The score of a delayed call is its time, shifted by 12 bits that hold a counter.
 */
async function contents(prefix: string, began: number): Promise<Record<string, unknown>> {
  const found = await Promise.all(QUEUES.map((queue) => redis.client.keys(`${prefix}:${queue}:*`)));
  const contents = await contentsOf(
    redis.client,
    found.flat().filter((key) => !UNREAD.test(key)),
  );
  const minutes = (time: number) => `began + ${Math.round((time - began) / MINUTE_MS)} min`;
  const text = JSON.stringify(contents)
    .replaceAll(prefix, "")
    .replaceAll(/\b\d{16}\b/g, (score) => minutes(Number(score) / 0x1000))
    .replaceAll(/\b\d{13}\b/g, (time) => minutes(Number(time)));
  return JSON.parse(text);
}

const STEPS: Record<string, readonly Step[]> = {
  add: [add()],
  "add twice": [add(), add()],
  "add many calls to several queues in one step": [
    add(CALL, OTHER, callTo("c_3", 2), callTo("c_4"), callTo("c_5", 2)),
  ],
  "add together a call that is queued and one that is not": [add(OTHER), add(CALL, OTHER, CALL)],
  "add text that is not ASCII": [add({ ...CALL, metadata: { "X-WEBHOOK-NAME": "größer 🚪 \u0000" } })],
  "claim and add": [claim],
  "add a call that is in flight": [add(), take, add()],
  "add a call that waits for its delay": [add(), take, retryLater, add()],
  "add a call that has failed": [add(), take, fail, add()],
  "add a call that has ended": [add(), take, finish(false), add()],
  "add a call that is paid for": [buy],
  "take from an empty queue": [take],
  take: [add(), add(OTHER), take],
  "take more calls than wait, from several queues in one step": [
    add(CALL, OTHER, callTo("c_3", 2)),
    takeAtOnce([ID], ["c_3", SECOND], ["c_2"], ["c_4"], ["c_5", "x402/1/7"]),
  ],
  "finish some calls and take others in one step": [
    add(CALL, OTHER, THIRD, callTo("c_4", 2)),
    takeTwo,
    atOnce(finish(false, [ID, "c_2"]), takeAtOnce(["c_3"], ["c_4", SECOND])),
  ],
  finish: [add(), add(OTHER), take, finish(false)],
  "finish a call that the runner does not keep": [add(), take, finish(false, [ID], false)],
  "finish several calls in one step": [add(CALL, OTHER, THIRD), takeTwo, finish(false, [ID, "c_2"])],
  "finish several calls and take the next ones in one step": [
    add(CALL, OTHER, THIRD),
    takeTwo,
    finish(true, [ID, "c_2"]),
  ],
  "finish together a call that is not in flight and one that is": [
    add(CALL, OTHER, THIRD),
    take,
    finish(true, ["c_2", ID]),
  ],
  "finish and take the next": [add(), add(OTHER), take, finish(true)],
  "finish the last call and take the next": [add(), take, finish(true)],
  "finish a call that is not in flight": [add(), add(OTHER), finish(true)],
  fail: [add(), take, fail],
  "retry later": [add(), take, retryLater],
  postpone: [add(), take, postpone],
  "take a due call": [add(), take, retryLater, later, take],
  "return to the queue": [add(), add(OTHER), take, back],
  "replay a failed call": [add(), take, fail, replay],
  "take back from a dead worker": [add(), take, loseLock, lookForStalled, lookForStalled],
};

test.each(Object.entries(STEPS))(
  "the step %j changes BullMQ's keys as BullMQ alone does",
  async (_, steps) => {
    const run = async (side: Side, began: number) => {
      for (const queue of QUEUES)
        await redis.client.hset(`${side.prefix}:${queue}:meta`, { "opts.maxLenEvents": "100" });
      for (const step of steps) await step(side).catch(refused);
      return contents(side.prefix, began);
    };
    const [secs] = await redis.client.time();
    const [found, wanted] = [
      await run(ours(partitionOf(redis.client, "{ours}")), Number(secs) * 1000),
      await run(bullmq("{bullmq}"), NOW),
    ];
    expect(Object.keys(wanted).length).toBeGreaterThanOrEqual(QUEUES.length);
    expect(found).toEqual(wanted);
  },
);

const ROOM = { bytes: 1000, alone: false };

function oursOnly() {
  const partition = partitionOf(redis.client, "{ours}");
  const { add, take } = ours(partition);
  return { keys: partition.keys, of: openBackends(partition, WORK), add, take };
}

test("a take returns how many calls still wait, unless their job has limits", async () => {
  const { of, keys, add } = oursOnly();
  await add([CALL, OTHER, THIRD], undefined);
  expect(await of(QUEUE).fetch(tokenOf(ID), ROOM)).toMatchObject({ id: ID, waiting: 2 });
  await redis.client.hset(keys.job("7/1"), { concurrency: 2 });
  expect(await of(QUEUE).fetch(tokenOf("c_2"), ROOM)).toMatchObject({ id: "c_2", waiting: 0 });
});

test("an error while waking producers of one queue fails no step of the batch", async () => {
  const { of, keys, add, take } = oursOnly();
  const [one, another] = [callTo("c_4", 2), callTo("c_5", 2)];
  await add([CALL, one, another], undefined);
  await take([[ID], ["c_4", SECOND]]);
  await redis.client.set(keys.inQueue(QUEUE, "delayed"), "no sorted set");
  const steps = await Promise.all([
    of(SECOND).ended("c_4", tokenOf("c_4"), ROOM),
    of(QUEUE).ended(ID, TOKEN, undefined),
  ]);
  expect(steps).toEqual([expect.objectContaining({ id: "c_5" }), undefined]);
  const bytes = await redis.client.hgetall(keys.bytes);
  expect(bytes).toEqual({ [QUEUE]: "0", [SECOND]: String(toJson(another).length) });
});

test("a call whose job has lost its fields counts as unreadable", async () => {
  const { of, keys, add } = oursOnly();
  await add([CALL], undefined);
  await redis.client.hdel(keys.inQueue(QUEUE, ID), "data", "timestamp");
  expect(await of(QUEUE).fetch(TOKEN, ROOM)).toMatchObject({ id: ID, data: "", queuedAt: 0, crashes: 0 });
});
