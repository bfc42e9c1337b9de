import { expect, test } from "vitest";
import type { ProducerOptions } from "../../../services/producer/producer.ts";
import { NotNow, Refused } from "../../../services/producer/retry-policy.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { createFailedRecords } from "../../../shared/queue/call-record.ts";
import { createFailedCalls } from "../../../shared/queue/failed.ts";
import { queueOf } from "../../../shared/queue/queue-name.ts";
import { ACT } from "../../fixtures/failed-calls.ts";
import { type FakeAnswer, useFakeRunner } from "../../fixtures/fake-runner.ts";
import { aCall, useProducer } from "../../fixtures/producer.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import { type Fault, useRedisProxy } from "../../fixtures/redis-proxy.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { takeBack } from "../../support/take-back.ts";

const redis = useRedis();
const proxy = useRedisProxy(redis);
const runner = useFakeRunner();
const producers = useProducer({ redis });

/**
 * Adds a call with a record that has the field `unsure`, as a paid call has: it says whether an attempt may have had an
 * effect.
 */
async function addWatched() {
  const call = aCall();
  await producers.add(call, { by: "a test", bodySha256: call.sha256, windowMs: 600_000 });
  await redis.client.hset(keys.record(call.id), "unsure", 0);
  return { ...call, queue: queueOf(call) };
}

const unsureOf = (id: string) => redis.client.hget(keys.record(id), "unsure");
const stateOf = (id: string) => producers.records.state(id);

/**
 * Runs a call whose first attempt ends with this answer, and whose next attempt is refused. Returns the record's
 * `unsure`.
 */
async function failsAfter(first: FakeAnswer): Promise<string | null> {
  runner.answer = () => (runner.offers.length === 1 ? first : { status: 422 });
  const { id } = await addWatched();
  // A busy machine may delay an answer, so only the silent runner, whose time-out the test waits for, gets a short one.
  producers.start({ runnerUrl: runner.url, timeoutMs: first === "silence" ? 500 : 60_000 });
  await eventually("it has failed", async () => (await stateOf(id)) === "FAILED");
  expect(runner.offers.length).toBe(first === REFUSAL ? 1 : 2);
  return unsureOf(id);
}

const REFUSAL: FakeAnswer = { status: 404 };

test.each<[string, FakeAnswer]>([
  ["a time-out", "silence"],
  ["a connection that breaks", "cut"],
  ["500", { status: 500 }],
  ["503 with Retry-After", { status: 503, headers: { "Retry-After": "0" } }],
  ["a redirect", { status: 302 }],
  ["408", { status: 408 }],
  ["409: the call still runs", { status: 409, headers: { "Retry-After": "0" } }],
])(
  "an attempt that ends with %s is recorded as a possible effect, even if a later attempt is refused",
  async (_, answer) => {
    expect(await failsAfter(answer)).toBe("1");
  },
);

test.each<[string, FakeAnswer]>([
  ["429", { status: 429, headers: { "Retry-After": "0" } }],
  ["404", REFUSAL],
])("an attempt that ends with %s is recorded as without effect", async (_, answer) => {
  expect(await failsAfter(answer)).toBe("0");
});

test("a call that could not be sent is recorded as without effect", async () => {
  await runner.leave();
  runner.answer = () => ({ status: 422 });
  const { id } = await addWatched();
  const { saw } = producers.start({ runnerUrl: runner.url });
  await saw("runner.down");
  await runner.comeBack();
  await eventually("it has failed", async () => (await stateOf(id)) === "FAILED");
  expect(await unsureOf(id)).toBe("0");
});

test("an error of your own inject counts as without effect if its class says so, and otherwise as a possible effect", async () => {
  const ends = [new NotNow("full", 1), new Refused("never")];
  const { id } = await addWatched();
  const { producer } = producers.start({ inject: () => Promise.reject(ends.shift()) });
  await eventually("it has failed", async () => (await stateOf(id)) === "FAILED");
  expect(await unsureOf(id)).toBe("0");
  await producer.close(1000);

  const others = [new Error("oops"), new Refused("never")];
  const other = await addWatched();
  producers.start({ inject: () => Promise.reject(others.shift()) });
  await eventually("it has failed", async () => (await stateOf(other.id)) === "FAILED");
  expect(await unsureOf(other.id)).toBe("1");
});

test("an attempt that a stopping producer interrupts is recorded as a possible effect", async () => {
  runner.answer = () => "silence";
  const { id } = await addWatched();
  const { producer } = producers.start({ runnerUrl: runner.url, timeoutMs: 60_000 });
  await eventually("the runner has it", () => runner.offers.length === 1);
  await producer.close(1);
  expect(await producers.queues.countIn("wait")).toBe(1);
  expect(await unsureOf(id)).toBe("1");
});

onlyInLongRun(() => {
  test("a possible effect is recorded even if Redis refuses the write for a while", async () => {
    runner.answer = () => (runner.offers.length === 1 ? "cut" : { status: 422 });
    const { id } = await addWatched();
    let refusals = 6;
    proxy.onCommand = (words) =>
      runner.offers.length === 1 && isRecord(words) && refusals-- > 0 ? REFUSED : undefined;
    producers.start({ redisUrl: proxy.url, runnerUrl: runner.url });
    await eventually("it has failed", async () => (await stateOf(id)) === "FAILED");
    expect(refusals).toBeLessThan(5);
    expect(await unsureOf(id)).toBe("1");
  });
});

/** The reply of a Redis that cannot write now. */
const REFUSED: Fault = { kind: "rewrite", words: ["EVAL", "return redis.error_reply('MISCONF')", "0"] };

/** Whether the command is a script whose first key is a call's record. */
const isRecord = (words: readonly string[]) => words[3]?.startsWith("{postern}:call:") === true;

/** A runner that answers a call's first attempt with a 2xx once `succeed` is called, and refuses every later attempt. */
function lateRunner() {
  let offers = 0;
  let succeed: () => void = () => {};
  const first = new Promise<void>((resolve) => {
    succeed = resolve;
  });
  const inject: NonNullable<ProducerOptions["inject"]> = () => {
    offers += 1;
    return offers === 1 ? first : Promise.reject(new Refused("no"));
  };
  return { inject, succeed: () => succeed(), hasIt: () => offers === 1 };
}

test("a call that was taken back from a silent producer is marked as having a possible effect", async () => {
  const call = await addWatched();
  const { inject, succeed, hasIt } = lateRunner();
  producers.start({ inject });
  await eventually("the runner has it", hasIt);
  expect(await unsureOf(call.id)).toBe("0");
  await takeBack(redis.partition, call);
  expect(await unsureOf(call.id)).toBe("1");
  await eventually("it has failed", async () => (await stateOf(call.id)) === "FAILED");
  expect(await unsureOf(call.id)).toBe("1");
  succeed();
});

test("a call that was in flight when a process ended is marked as having a possible effect, even without a note", async () => {
  const { id, queue } = await addWatched();
  await redis.client.hset(redis.partition.keys.inQueue(queue, id), "stc", 1);
  runner.answer = () => ({ status: 422 });
  producers.start({ runnerUrl: runner.url });
  await eventually("it has failed", async () => (await stateOf(id)) === "FAILED");
  expect(await unsureOf(id)).toBe("1");
});

test("a 2xx that arrives after another producer's attempt has failed the call wins, and the failure is deleted", async () => {
  const call = await addWatched();
  const { inject, succeed, hasIt } = lateRunner();
  producers.start({ inject });
  await eventually("the runner has it", hasIt);
  await takeBack(redis.partition, call);
  const failed = createFailedCalls(redis.partitions.of(call.id));
  await eventually("it has failed", async () => (await failed.count({})) === 1);
  succeed();
  await eventually("it is injected", async () => (await stateOf(call.id)) === "INJECTED");
  expect(await failed.count({})).toBe(0);
  expect(await producers.queues.find(call.id)).toBeUndefined();
  expect(Number(await redis.client.hget(keys.bytes, call.queue))).toBe(0);
  expect(await redis.client.pttl(keys.attempts(call.id))).toBeGreaterThan(0);
});

test("a 2xx that is reported while another worker records the call as failed wins too", async () => {
  const call = await addWatched();
  const { inject, succeed, hasIt } = lateRunner();
  let isHeld = true;
  const isFail = (words: readonly string[]) => words.includes("failedReason");
  proxy.onCommand = (words) => (isHeld && isFail(words) ? REFUSED : undefined);
  producers.start({ inject, redisUrl: proxy.url });
  await eventually("the runner has it", hasIt);
  await takeBack(redis.partition, call);
  await eventually("the record says so", async () => (await stateOf(call.id)) === "FAILED");
  succeed();
  await eventually("it is injected", async () => (await stateOf(call.id)) === "INJECTED");
  isHeld = false;
  await eventually("nothing is left", async () => (await producers.queues.find(call.id)) === undefined);
  expect(await createFailedCalls(redis.partitions.of(call.id)).count({})).toBe(0);
});

test("a 2xx that is reported while an operator discards the call wins, and the call stays injected", async () => {
  const call = await addWatched();
  const { inject, succeed, hasIt } = lateRunner();
  producers.start({ inject });
  await eventually("the runner has it", hasIt);
  await takeBack(redis.partition, call);
  const calls = createFailedCalls(redis.partitions.of(call.id));
  await eventually("it has failed", async () => (await calls.count({})) === 1);
  const failed = await calls.find(call.id);
  if (failed === undefined) throw new Error("it is not there");
  const records = createFailedRecords(redis.partitions.of(call.id));
  expect(await records.beginDiscard(failed, ACT)).toBe("done");
  succeed();
  await eventually("it is injected", async () => (await stateOf(call.id)) === "INJECTED");
  await records.endDiscard(failed, Date.now());
  expect(await stateOf(call.id)).toBe("INJECTED");
  expect(await calls.count({})).toBe(0);
});
