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

/** A call that is watched since it was claimed, as a paid one is. */
async function addWatched() {
  const call = aCall();
  await producers.add(call, { by: "a test", bodySha256: call.sha256, windowMs: 600_000 });
  await redis.client.hset(keys.record(call.id), "unsure", 0);
  return { ...call, queue: queueOf(call) };
}

const unsureOf = (id: string) => redis.client.hget(keys.record(id), "unsure");
const stateOf = (id: string) => producers.records.state(id);

/** Runs a call whose attempts end like this, and then with a refusal. */
async function failsAfter(first: FakeAnswer): Promise<string | null> {
  runner.answer = () => (runner.offers.length === 1 ? first : { status: 422 });
  const { id } = await addWatched();
  // A busy machine may delay an answer by more than the time-out that a silent runner is to reach soon.
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
])("an attempt that ends with %s may have had an effect, whatever comes after it", async (_, answer) => {
  expect(await failsAfter(answer)).toBe("1");
});

test.each<[string, FakeAnswer]>([
  ["429", { status: 429, headers: { "Retry-After": "0" } }],
  ["404", REFUSAL],
])("an attempt that ends with %s had no effect", async (_, answer) => {
  expect(await failsAfter(answer)).toBe("0");
});

test("a call that could not be sent had no effect", async () => {
  await runner.leave();
  runner.answer = () => ({ status: 422 });
  const { id } = await addWatched();
  const { saw } = producers.start({ runnerUrl: runner.url });
  await saw("runner.down");
  await runner.comeBack();
  await eventually("it has failed", async () => (await stateOf(id)) === "FAILED");
  expect(await unsureOf(id)).toBe("0");
});

test("an inject of one's own that says no had no effect, and one that throws anything else may have had one", async () => {
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

test("an attempt that a stopping producer breaks off may have had an effect", async () => {
  runner.answer = () => "silence";
  const { id } = await addWatched();
  const { producer } = producers.start({ runnerUrl: runner.url, timeoutMs: 60_000 });
  await eventually("the runner has it", () => runner.offers.length === 1);
  await producer.close(1);
  expect(await producers.queues.countIn("wait")).toBe(1);
  expect(await unsureOf(id)).toBe("1");
});

onlyInLongRun(() => {
  test("what an attempt may have done is not forgotten while Redis refuses to keep it", async () => {
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

/** Redis cannot write now. */
const REFUSED: Fault = { kind: "rewrite", words: ["EVAL", "return redis.error_reply('MISCONF')", "0"] };

/** A script whose first key is a record. */
const isRecord = (words: readonly string[]) => words[3]?.startsWith("{postern}:call:") === true;

/** A runner whose first answer to a call is a 2xx that comes when it is told, and whose others are refusals. */
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

test("a call that was taken back from a silent producer may have had an effect", async () => {
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

test("a call that a process ended with in hand may have had an effect, though nobody has noted it", async () => {
  const { id, queue } = await addWatched();
  await redis.client.hset(redis.partition.keys.inQueue(queue, id), "stc", 1);
  runner.answer = () => ({ status: 422 });
  producers.start({ runnerUrl: runner.url });
  await eventually("it has failed", async () => (await stateOf(id)) === "FAILED");
  expect(await unsureOf(id)).toBe("1");
});

test("a 2xx that arrives after another producer's attempt has failed the call wins, and nothing remains of the failure", async () => {
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

test("a 2xx that is told while another worker writes down that the call failed wins too", async () => {
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

test("a 2xx that is told while an operator discards the call wins, and the call stays injected", async () => {
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
