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
 * Our Lua around a script of BullMQ's must change nothing of what that script does, and a call that ours adds must lie as BullMQ's own
 * `add` leaves it. An update of BullMQ that changes how its scripts name or number what they are given shows here.
 */
const QUEUE = "webhook/7/1";
const SECOND = "webhook/7/2";
const QUEUES: readonly QueueName[] = [QUEUE, SECOND, "x402/1/7"];
/** By the clock of this process, which is not Redis'. */
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

/** One side of the comparison, under keys of its own. */
type Side = {
  prefix: string;
  of(queue: QueueName): RedisQueueBackend;
  /** Adds the calls at once. */
  add(calls: readonly JobCall[], claim: Idempotency | undefined): Promise<unknown>;
  /** Adds the call of a payment that is settled. */
  buy(): Promise<unknown>;
  /** Takes the next call of each of these queues at once, each with the token of a call. */
  take(takes: readonly Take[]): Promise<unknown>;
  /** Calls of QUEUE leave it at once, each with its token, because the runner has them or for another reason. */
  end(ids: readonly string[], options: { injected: boolean; fetches: boolean }): Promise<unknown>;
  /** The call, which has failed, waits again. */
  replay(): Promise<unknown>;
  /** Begins these steps together, in this order. */
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
      const payment = await journal.look(PAYMENT.call.id);
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

/** BullMQ without anything of ours. */
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

/** BullMQ's code for a call that is not in hand. */
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
const putOff: Step = ({ of }) => of(QUEUE).moveToDelayed(ID, NOW, MINUTE_MS, TOKEN, { skipAttempt: true });
const back: Step = ({ of }) => of(QUEUE).moveJobFromActiveToWait(ID, TOKEN);
const replay: Step = ({ replay }) => replay();
/** The calls that wait for their delay are due. */
const later: Step = async ({ prefix }) => {
  const delayed = `${prefix}:${QUEUE}:delayed`;
  for (const id of await redis.client.zrange(delayed, "0", "-1")) await redis.client.zadd(delayed, 1, id);
};
const lookForStalled: Step = async ({ of, prefix }) => {
  await redis.client.del(`${prefix}:${QUEUE}:stalled-check`);
  return of(QUEUE).moveStalledJobsToWait();
};
const loseLock: Step = ({ prefix }) => redis.client.del(`${prefix}:${QUEUE}:${ID}:lock`);

/** Only BullMQ's Workers and QueueEvents read these, and there are none. Our ends and takes do not write them. */
const UNREAD = /:(events|marker)$/;

/**
 * All else that stands under BullMQ's names. Times are in whole minutes since `began`: BullMQ's are by the clock of this process, and ours by
 * Redis'. A delayed call's score holds its time above 12 bits of a counter.
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
  "add many at once, to several queues": [
    add(CALL, OTHER, callTo("c_3", 2), callTo("c_4"), callTo("c_5", 2)),
  ],
  "add at once what is there and what is not": [add(OTHER), add(CALL, OTHER, CALL)],
  "add text that is not ASCII": [add({ ...CALL, metadata: { "X-WEBHOOK-NAME": "größer 🚪 \u0000" } })],
  "claim and add": [claim],
  "add what is in hand": [add(), take, add()],
  "add what waits for its delay": [add(), take, retryLater, add()],
  "add what has failed": [add(), take, fail, add()],
  "add what has ended": [add(), take, finish(false), add()],
  "add what is paid for": [buy],
  "take from an empty queue": [take],
  take: [add(), add(OTHER), take],
  "take at once more than waits, from several queues": [
    add(CALL, OTHER, callTo("c_3", 2)),
    takeAtOnce([ID], ["c_3", SECOND], ["c_2"], ["c_4"], ["c_5", "x402/1/7"]),
  ],
  "end some and take others at once": [
    add(CALL, OTHER, THIRD, callTo("c_4", 2)),
    takeTwo,
    atOnce(finish(false, [ID, "c_2"]), takeAtOnce(["c_3"], ["c_4", SECOND])),
  ],
  finish: [add(), add(OTHER), take, finish(false)],
  "end what the runner does not have": [add(), take, finish(false, [ID], false)],
  "finish several at once": [add(CALL, OTHER, THIRD), takeTwo, finish(false, [ID, "c_2"])],
  "finish several at once and take what is next": [
    add(CALL, OTHER, THIRD),
    takeTwo,
    finish(true, [ID, "c_2"]),
  ],
  "finish at once what is not in hand and what is": [
    add(CALL, OTHER, THIRD),
    take,
    finish(true, ["c_2", ID]),
  ],
  "finish and take the next": [add(), add(OTHER), take, finish(true)],
  "finish the last and look for the next": [add(), take, finish(true)],
  "finish what is not in hand": [add(), add(OTHER), finish(true)],
  fail: [add(), take, fail],
  "retry later": [add(), take, retryLater],
  "put off": [add(), take, putOff],
  "take what is due": [add(), take, retryLater, later, take],
  "give back": [add(), add(OTHER), take, back],
  "replay a failed one": [add(), take, fail, replay],
  "take back from a dead worker": [add(), take, loseLock, lookForStalled, lookForStalled],
};

test.each(Object.entries(STEPS))("to %s changes BullMQ's keys as BullMQ alone does", async (_, steps) => {
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
});

const ROOM = { bytes: 1000, alone: false };

function oursOnly() {
  const partition = partitionOf(redis.client, "{ours}");
  const { add, take } = ours(partition);
  return { keys: partition.keys, of: openBackends(partition, WORK), add, take };
}

test("a take says how many calls wait still, unless the limits of its job have a say", async () => {
  const { of, keys, add } = oursOnly();
  await add([CALL, OTHER, THIRD], undefined);
  expect(await of(QUEUE).fetch(tokenOf(ID), ROOM)).toMatchObject({ id: ID, waiting: 2 });
  await redis.client.hset(keys.job("7/1"), { concurrency: 2 });
  expect(await of(QUEUE).fetch(tokenOf("c_2"), ROOM)).toMatchObject({ id: "c_2", waiting: 0 });
});

test("what fails when producers are told of one queue makes no step of its batch fail", async () => {
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

test("a job that has lost the fields of a call is a call that cannot be read", async () => {
  const { of, keys, add } = oursOnly();
  await add([CALL], undefined);
  await redis.client.hdel(keys.inQueue(QUEUE, ID), "data", "timestamp");
  expect(await of(QUEUE).fetch(TOKEN, ROOM)).toMatchObject({ id: ID, data: "", queuedAt: 0, crashes: 0 });
});
