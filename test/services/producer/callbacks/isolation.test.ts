import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { openJobs } from "../../../../shared/queue/jobs.ts";
import { openRegistry } from "../../../../shared/queue/registry.ts";
import { useFakeRunner } from "../../../fixtures/fake-runner.ts";
import { aCall, TEST_CALLBACKS, type TestProducerOptions, useProducer } from "../../../fixtures/producer.ts";
import { type TestReceiver, useReceivers } from "../../../fixtures/receivers.ts";
import { keys } from "../../../fixtures/redis.ts";
import { LONG_RUN, onlyInLongRun } from "../../../support/long-run.ts";

const producers = useProducer();
const runner = useFakeRunner();
const startReceiver = useReceivers();

const start = (options: TestProducerOptions = {}) => producers.start({ runnerUrl: runner.url, ...options });
const callWithCallback = (receiver: TestReceiver, job = 1) =>
  aCall({ job_id: job, callback: receiver.target });
const addMany = (count: number, make: (i: number) => ReturnType<typeof aCall>) =>
  Promise.all(Array.from({ length: count }, (_, i) => producers.add(make(i))));
const gateOf = ({ target }: TestReceiver) => `callback/${target.receiver}`;

test("receivers that never answer delay neither other receivers nor any job", async () => {
  const hanging = await Promise.all([startReceiver(), startReceiver(), startReceiver()]);
  for (const receiver of hanging) receiver.answer = () => "silence";
  const working = await startReceiver();
  await addMany(60, (i) => callWithCallback(hanging[i % 3] as TestReceiver));
  // The long time-outs keep a call from being sent twice if this process is too busy to answer as the runner in time.
  start({ callbacks: { ...TEST_CALLBACKS, timeout_ms: 60_000 }, lockMs: 60_000, timeoutMs: 30_000 });
  await eventually("they hang", () => hanging.every(({ received }) => received.length > 0));
  await addMany(5, () => callWithCallback(working));
  await working.got(5);
  expect(runner.offers).toHaveLength(65);
});

onlyInLongRun(() => {
  test("a receiver that is away does not get a request for each callback, and gets all callbacks once it is back", async () => {
    const receiver = await startReceiver();
    const working = await startReceiver();
    await receiver.leave();
    await addMany(100, () => callWithCallback(receiver));
    const { log, saw, count, producer } = start({
      callbacks: { ...TEST_CALLBACKS, attempts: 1000, backoff: { base_ms: 100, cap_ms: 100 } },
    });
    await saw("receiver.down");
    await saw("call.delayed", 100);
    const isTried = (fields: Record<string, unknown>) => !/ is down: /.test(String(fields["reason"]));
    const tried = log.events.filter(({ event, fields }) => event === "call.delayed" && isTried(fields));
    expect(tried.length).toBeLessThan(50);
    expect([count("receiver.down"), producer.receiversAway()]).toEqual([1, 1]);
    await addMany(1, () => callWithCallback(working));
    await working.got();
    await receiver.comeBack();
    await receiver.got(100);
    await saw("receiver.up");
    expect(producer.receiversAway()).toBe(0);
    expect(new Set(receiver.received.map(({ id }) => id)).size).toBe(100);
  }, 60_000);
});

test("deliveries in flight to one receiver never exceed its limit, over all producers and jobs", async () => {
  const receiver = await startReceiver();
  let [underWay, most] = [0, 0];
  receiver.answer = async () => {
    underWay += 1;
    most = Math.max(most, underWay);
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    underWay -= 1;
    return { status: 204 };
  };
  const calls = LONG_RUN ? 60 : 18;
  await addMany(calls, (i) => callWithCallback(receiver, 1 + (i % 3)));
  const limited = { callbacks: { ...TEST_CALLBACKS, concurrency: 2 }, setsLimits: true };
  start(limited);
  start(limited);
  await receiver.got(calls);
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThanOrEqual(2);
});

test("callbacks to a receiver that an operator has paused wait, and callbacks to others are sent", async () => {
  const [paused, other] = [await startReceiver(), await startReceiver()];
  const jobs = openJobs(producers.redis.partitions);
  const why = { at: 1, by: "test", reason: "a test" };
  expect(await jobs.pause(gateOf(paused), why)).toMatchObject({ changed: true });
  await addMany(3, () => callWithCallback(paused));
  await addMany(3, () => callWithCallback(other, 2));
  start();
  await other.got(3);
  expect(paused.received).toEqual([]);
  expect((await jobs.gates()).get(gateOf(paused))).toMatchObject({ pausedBy: "test", reason: "a test" });
  expect(await jobs.resume(gateOf(paused), why)).toMatchObject({ changed: true });
  await paused.got(3);
});

test("an operator can pause all callbacks together, while jobs continue", async () => {
  const receiver = await startReceiver();
  const jobs = openJobs(producers.redis.partitions);
  await jobs.pause("callback", { at: 1, by: "test", reason: "a test" });
  const { saw } = start();
  await addMany(3, () => callWithCallback(receiver));
  await saw("call.injected", 3);
  expect(receiver.received).toEqual([]);
  await jobs.resume("callback", { at: Date.now(), by: "a test" });
  await receiver.got(3);
});

test("a receiver that sends Retry-After for several callbacks is paused, and other receivers are not", async () => {
  const [busy, other] = [await startReceiver(), await startReceiver()];
  busy.answer = () => ({ status: 429, headers: { "retry-after": "30" } });
  await addMany(30, () => callWithCallback(busy));
  const { saw } = start({ callbacks: { ...TEST_CALLBACKS, concurrency: 1 }, setsLimits: true });
  await saw("job.throttled");
  await addMany(1, () => callWithCallback(other));
  await other.got();
  expect(busy.received.length).toBeLessThan(30);
});

test("the queue of a receiver without callbacks is removed with all its keys", async () => {
  const receiver = await startReceiver();
  await addMany(2, (i) => callWithCallback(receiver, 1 + i));
  const { saw } = start();
  await saw("call.injected", 4);
  const { client, partition } = producers.redis;
  const { receiver: name } = receiver.target;
  const queues = [`callback/7/1/${name}`, `callback/7/2/${name}`];
  expect((await client.smembers(keys.receiver(name))).sort()).toEqual(queues);
  await openJobs(producers.redis.partitions).throttle(gateOf(receiver), 1);
  for (const queue of queues) expect(await openRegistry(partition).remove(queue)).toBe(true);
  expect(await client.exists(keys.receiver(name), keys.job(gateOf(receiver)))).toBe(0);
});

test("a producer that sends no callbacks leaves them to another producer", async () => {
  const receiver = await startReceiver();
  const first = start({ callbacks: undefined, origins: ["webhook"] });
  await addMany(1, () => callWithCallback(receiver));
  await first.saw("call.injected");
  expect(await producers.queues.countIn("wait")).toBe(1);
  start();
  await receiver.got();
});
