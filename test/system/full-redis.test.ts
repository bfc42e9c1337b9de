import { afterAll, expect, test } from "vitest";
import { createRouter } from "../../services/runner/runner.ts";
import { WEBHOOK_PATH } from "../../shared/call/job-call.ts";
import { encodeKeepArgs } from "../../shared/call/kept/kept.ts";
import { createResults } from "../../shared/call/results/store.ts";
import { createCallHistory } from "../../shared/call-search/history/keep.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { silentLogger } from "../../shared/platform/log/logger.ts";
import { systemClock } from "../../shared/platform/time/clock.ts";
import { openBackends } from "../../shared/queue/backend.ts";
import { createRejectedList } from "../../shared/telemetry/rejected/list.ts";
import { useDevnet } from "../fixtures/devnet.ts";
import { useEnds } from "../fixtures/ends.ts";
import { aCall, useProducer } from "../fixtures/producer.ts";
import { asUser, denialsOf, keys, runnerKeys, useOwnRedis } from "../fixtures/redis.ts";
import { useRunners } from "../fixtures/runners.ts";
import { useWebhooks } from "../fixtures/webhooks.ts";
import { startX402 } from "../fixtures/x402.ts";
import { newPayer } from "../support/devnet.ts";
import { send } from "../support/http.ts";
import { onlyInLongRun } from "../support/long-run.ts";
import { deliverResultOn, WORK } from "../support/results.ts";

const redis = useOwnRedis();
afterAll(async () => expect(await denialsOf(redis), "no process lacks a right").toEqual([]));
const webhooks = useWebhooks({ redis });
const producers = useProducer({ redis });
const runners = useRunners({ redis });
const ends = useEnds();

/** Size of other data. It makes the processes' own data negligible. */
const OTHER_DATA_BYTES = 64 * 1024 * 1024;

async function useUpTo(part: number): Promise<void> {
  const used = Number(/^used_memory:(\d+)/m.exec(await redis.client.info("memory"))?.[1]);
  await redis.client.config("SET", "maxmemory", Math.round(used / part));
}

const endpoints = [
  { path: "/open", job_id: 1, auth: "none" },
  { path: "/closed", job_id: 1, auth: "token", token_query: "token", secret: "a secret of this test" },
];

/** Calls without a record whose results are delivered. */
const RESULTS = ["1", "2", "3", "4"].map((digit) => `c_${digit.repeat(32)}`) as [
  string,
  string,
  string,
  string,
];

const FAILED_CALL = { id: `c_${"f".repeat(32)}`, queue: "webhook/7/1" } as const;

/** Keeps the webhooks of two endpoints. Returns a function that counts the ones still kept. */
async function keepWebhooks(): Promise<() => Promise<number>> {
  const backend = openBackends(redis.partition, WORK)("webhook/7/9");
  const calls = ["/a", "/b", "/b"].map((path) => {
    const call = aCall({ job_id: 9, keep_delivered: { secs: 3600, bytes_max: 100_000 } });
    return { ...call, metadata: { ...call.metadata, [WEBHOOK_PATH]: path } };
  });
  for (const call of calls) {
    await producers.add(call);
    await backend.fetch("worker:1", { bytes: undefined, alone: false });
    const kept = encodeKeepArgs(call);
    await backend.injected(call.id, "worker:1", { fetchNext: undefined, retried: false, kept });
  }
  return () => redis.client.exists(calls.map(({ id }) => keys.kept(id)));
}

test("a Redis that fills up evicts kept webhooks, then results, then history, then refuses new calls, and still delivers every call that it accepted", async () => {
  await redis.client.setrange("other data", OTHER_DATA_BYTES, "x");
  const jobs = createRouter().job(1, { name: "answers", handler: () => ({ body: "x".repeat(10_000) }) });
  const runner = await runners.start({ jobs });
  const gateway = await webhooks.start({ endpoints });
  const answers = () => redis.client.zcard(runnerKeys.answers);
  const results = createResults(redis.partition);
  const store = deliverResultOn(redis.partition);
  const deliver = (id: string) =>
    store(id, {
      ...{ kind: "answer", status: 200, contentType: undefined, at: 1, by: "delivery" },
      body: Buffer.alloc(10_000, "x"),
    });
  const kindOf = async (id: string) => (await results.read(id)).kind;
  const refused = async () => (await createRejectedList(redis.partition).matching({}, 10)).newest;
  const refuse = async () =>
    expect((await send(gateway.address, { path: "/closed", body: "" })).status).toBe(401);
  const post = () => send(gateway.address, { path: "/open", body: "a call" });
  let take = 0;
  const fail = (code: string) =>
    producers.records.attemptFailed(
      { ...FAILED_CALL, take: ++take },
      { at: 1, code, reason: "", worker: "" },
      1,
    );
  const attempts = async () => (await producers.records.attempts(FAILED_CALL.id)).map(({ n }) => n);

  for (const key of ["k-1", "k-2"]) await runner.offer(key);
  await redis.client.hset(keys.record(FAILED_CALL.id), { st: "QUEUED" });
  for (const code of ["a", "b", "c"]) await fail(code);
  for (const id of RESULTS.slice(0, 2)) await deliver(id);
  const taken = createCallHistory({
    ...{ partition: redis.partition, clock: systemClock, log: silentLogger },
    limits: { keptMs: 3_600_000, calls: 10, bytes: 100_000 },
  });
  taken.add(aCall(), { attempts: 1 });
  await taken.stop();
  const keptWebhooks = await keepWebhooks();
  const remembered = () => redis.client.zcard(keys.history);
  await refuse();
  await eventually("the refused request is recorded", async () => (await refused()).length === 1);
  expect((await post()).status).toBe(202);

  expect(await keptWebhooks()).toBe(3);
  await useUpTo(0.66);
  await eventually("the kept webhooks are gone", async () => (await keptWebhooks()) === 0);
  expect(await answers()).toBe(2);
  expect(await (await keepWebhooks())()).toBe(0);

  await useUpTo(0.69);
  await eventually("the kept answers are gone", async () => (await answers()) === 0);
  expect(await redis.client.zcard(keys.results)).toBe(2);
  expect((await post()).status).toBe(202);

  await useUpTo(0.71);
  await eventually("the results are gone", async () => (await redis.client.zcard(keys.results)) === 0);
  expect(await deliver(RESULTS[2])).toBe("stored");
  expect(await Promise.all(RESULTS.map(kindOf))).toEqual(RESULTS.map(() => "unknown"));
  expect([await attempts(), (await refused()).length, await remembered()]).toEqual([[1, 2, 3], 1, 1]);
  expect((await post()).status).toBe(202);

  await useUpTo(0.745);
  await eventually("the history is gone", async () => (await refused()).length === 0);
  await eventually("no call is remembered", async () => (await remembered()) === 0);
  await eventually("the attempts but the newest are gone", async () => (await attempts()).length === 1);
  await fail("d");
  await refuse();
  expect([await attempts(), await refused()]).toEqual([[4], []]);
  expect((await post()).status).toBe(202);

  await useUpTo(0.87);
  await eventually("no new call is taken", async () => (await post()).json()["code"] === "queue.overloaded");

  await useUpTo(1.1);
  const accepted = await producers.queues.countIn("wait");
  expect(accepted).toBeGreaterThanOrEqual(4);
  const { saw } = producers.start({ runnerUrl: `http://${runner.address}` });
  await saw("call.delayed");
  await redis.client.config("SET", "maxmemory", 0);
  await saw("call.injected", accepted);

  await eventually("results are kept", async () => (await redis.client.exists(keys.resultsOff)) === 0);
  await deliver(RESULTS[3]);
  await eventually("webhooks are kept", async () => (await redis.client.exists(keys.keptOff)) === 0);
  expect(await kindOf(RESULTS[3])).toBe("answer");
  await eventually("calls are taken", async () => (await post()).status === 202);
  await eventually("history is kept", async () => (await redis.client.exists(keys.historyOff)) === 0);
  await refuse();
  await eventually("the next entry counts the one without", async () => (await refused())[0]?.missed === 1);
});

onlyInLongRun(() => {
  const devnet = useDevnet();

  test("payments that never settle use little of Redis, and payments are refused while webhooks still have their share", async () => {
    await redis.client.setrange("other data", OTHER_DATA_BYTES, "x");
    const gateway = await webhooks.start({ endpoints });
    await useUpTo(0.6);
    const x402 = await startX402({
      ...{ devnet, redisUrl: asUser(redis.url, "x402"), directUrl: redis.url },
      x402: { settle_timeout_secs: 1 },
    });
    ends.defer(() => x402.close());
    const pay = async (body: string | Buffer) =>
      x402.post(await x402.pay({ payer: await newPayer(devnet) }), { body });
    const sold = () => pay("a call");
    expect((await sold()).status).toBe(202);

    await devnet.control.fault({ on: "settle", kind: "status", status: 500 });
    const answers = await Promise.all([1, 2, 3, 4].map(() => pay(Buffer.alloc(1024 * 1024))));
    const codes = answers.map((answer) => answer.json()["code"]).sort();
    const [claimed, refused] = ["payment.outcome_unknown", "payment.too_many_unsettled"];
    expect(codes, "an eighth of a quarter of what calls may use").toEqual([
      claimed,
      claimed,
      refused,
      refused,
    ]);
    await devnet.control.clearFaults();

    await useUpTo(0.8);
    await eventually("no payment is taken", async () => (await sold()).json()["code"] === "queue.overloaded");
    expect((await send(gateway.address, { path: "/open", body: "a call" })).status).toBe(202);
  });
});
