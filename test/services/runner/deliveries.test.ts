import { beforeEach, expect, test } from "vitest";
import type { JobContext } from "../../../services/runner/router.ts";
import { type Answer, createRouter } from "../../../services/runner/runner.ts";
import { randomCallId } from "../../../shared/call/call-id.ts";
import type { ResultRead, Results } from "../../../shared/call/results/store.ts";
import { freePort } from "../../../shared/dev/free-port.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { useDeliveries } from "../../fixtures/deliveries.ts";
import { keys as gatewayKeys, runnerKeys, useRedis } from "../../fixtures/redis.ts";
import { signedHeaders, type TestRunner, useRunners } from "../../fixtures/runners.ts";
import { hasLogged, stateOf } from "./gated-jobs.ts";

const redis = useRedis();
const deliveries = useDeliveries({ redis });
const runners = useRunners({ redis, fresh: "test" });

const SECRET = "s".repeat(32);
const POSTERN = { runner: { secret: SECRET }, results: { deliveries: true } };

let handler: (context: JobContext) => unknown;
const jobs = createRouter().job(1, { name: "long", long: true, handler: (call) => handler(call) as Answer });

let callId: string;
beforeEach(async () => {
  callId = randomCallId();
  await redis.client.hset(gatewayKeys.record(callId), { st: "INJECTED", rs: "awaited", jb: "7/1" });
});

const startRunner = (addresses: readonly string[], options: object = {}) =>
  runners.start({
    ...{ jobs, secrets: [SECRET], deliver_to: addresses.map((address) => `http://${address}`) },
    ...{
      lease_ms: 300,
      long_attempts: 2,
      long_backoff: { base_ms: 1, cap_ms: 1 },
      random: () => 0.1,
      ...options,
    },
  });

const offer = ({ offer: post }: TestRunner) =>
  post(callId, { headers: signedHeaders(new Secret(SECRET), callId) });

async function resultOf(results: Results): Promise<ResultRead> {
  return eventually("the result is there", async () => {
    const read = await results.read(callId);
    return read.kind === "pending" ? undefined : read;
  });
}

const waiting = () => redis.client.exists(runnerKeys.delivery(callId), runnerKeys.deliveries);
const untilNothingWaits = () => eventually("nothing waits", async () => (await waiting()) === 0);

test.each([
  [{ status: 201, contentType: "text/csv", body: "a;b" }, { status: 201, contentType: "text/csv" }, "a;b"],
  [{ json: { a: 1 } }, { status: 200, contentType: "application/json" }, '{"a":1}'],
  [undefined, { status: 200, contentType: undefined }, ""],
])("what a long job returns, %j, is delivered as its result", async (answer, expected, body) => {
  handler = () => answer as Answer;
  const gateway = await deliveries.start(POSTERN);
  const runner = await startRunner([gateway.address]);
  await offer(runner);
  expect(await resultOf(gateway.results)).toMatchObject({
    kind: "answer",
    ...expected,
    body: Buffer.from(body),
  });
  await untilNothingWaits();
  expect(await stateOf(runner, callId)).toBe("done");
});

test("an answer that is longer than the runner keeps is delivered as too long", async () => {
  handler = () => ({ body: "x".repeat(101) });
  const gateway = await deliveries.start(POSTERN);
  await offer(await startRunner([gateway.address], { result_bytes_max: 100 }));
  expect(await resultOf(gateway.results)).toMatchObject({ kind: "too_long", status: 200 });
});

test("a result waits until a gateway accepts it, even after its runner has ended", async () => {
  handler = () => ({ body: "done" });
  const address = `127.0.0.1:${await freePort()}`;
  const first = await startRunner([address]);
  await offer(first);
  await eventually("it was tried", () => hasLogged(first, "result.delivery_failed", callId));
  await first.runner.close();
  expect(await waiting()).toBe(2);
  const gateway = await deliveries.start(POSTERN, address);
  await startRunner([address]);
  expect(await resultOf(gateway.results)).toMatchObject({ body: Buffer.from("done") });
  await untilNothingWaits();
});

test("a result goes to the next gateway if one is away or does not accept deliveries of this runner", async () => {
  handler = () => ({ body: "done" });
  const stranger = await deliveries.start({ ...POSTERN, runner: { secret: "another secret" } });
  const gateway = await deliveries.start(POSTERN);
  const away = `127.0.0.1:${await freePort()}`;
  const runner = await startRunner([away, stranger.address, gateway.address]);
  await offer(runner);
  await resultOf(gateway.results);
  await untilNothingWaits();
  expect(hasLogged(runner, "result.delivery_failed")).toBe(false);
});

test("a result that no gateway will ever accept is dropped, and that is logged", async () => {
  handler = () => ({ body: "done" });
  await redis.client.hset(gatewayKeys.record(callId), { st: "REFUNDED" });
  const gateway = await deliveries.start(POSTERN);
  const runner = await startRunner([gateway.address]);
  await offer(runner);
  await eventually("it is given up", () => hasLogged(runner, "result.delivery_refused", callId));
  await untilNothingWaits();
});

test("a call that fails for good delivers the failure without the handler's error, and its answer once it is run again", async () => {
  let isWell = false;
  handler = () => {
    if (isWell) return { body: "at last" };
    throw new Error("a secret at /home/me/job.ts:1");
  };
  const gateway = await deliveries.start(POSTERN);
  const runner = await startRunner([gateway.address]);
  await offer(runner);
  const failure = await resultOf(gateway.results);
  expect(failure).toMatchObject({ kind: "failure", status: 500, title: "The job failed" });
  expect(JSON.stringify(failure)).not.toContain("secret");
  await untilNothingWaits();
  isWell = true;
  const path = `/calls/${callId}/run`;
  await runner.runAgain(callId, {
    headers: { ...signedHeaders(new Secret(SECRET), callId, { path }), "idempotency-key": callId },
  });
  await eventually("its answer is there", async () => {
    const read = await gateway.results.read(callId);
    return read.kind === "answer" && read.body.toString() === "at last";
  });
});

test("an undelivered failure is not delivered after its call is run again", async () => {
  handler = () => {
    throw new Error("no luck");
  };
  const address = `127.0.0.1:${await freePort()}`;
  const runner = await startRunner([address], { random: () => 1 });
  await offer(runner);
  await eventually("it has failed", async () => (await stateOf(runner, callId)) === "failed");
  expect(await waiting()).toBe(2);
  let runs = 0;
  handler = async ({ signal }) => {
    runs += 1;
    await new Promise((resolve) => signal.addEventListener("abort", resolve));
    signal.throwIfAborted();
  };
  const path = `/calls/${callId}/run`;
  await runner.runAgain(callId, {
    headers: { ...signedHeaders(new Secret(SECRET), callId, { path }), "idempotency-key": callId },
  });
  await eventually("it runs again", () => runs === 1);
  expect(await waiting()).toBe(0);
});

test.each([
  [422, 1],
  [503, 2],
])(
  "a long job that answers %i fails after %i runs, with what its problem document says",
  async (status, times) => {
    let runs = 0;
    handler = () => {
      runs += 1;
      const body = JSON.stringify({ title: "No such page", detail: "It is gone", stack: "x" });
      return { status, contentType: "application/problem+json", body };
    };
    const gateway = await deliveries.start(POSTERN);
    const runner = await startRunner([gateway.address]);
    await offer(runner);
    expect(await resultOf(gateway.results)).toMatchObject({
      ...{ kind: "failure", status, title: "No such page", detail: "It is gone" },
    });
    expect([runs, await stateOf(runner, callId)]).toEqual([times, "failed"]);
  },
);

test("progress is sent at most once a second, and only the newest", async () => {
  const progressRead: string[] = [];
  let end = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  handler = async ({ progress }) => {
    for (let step = 1; step <= 100; step++) progress({ step });
    await ended;
  };
  const gateway = await deliveries.start(POSTERN);
  await offer(await startRunner([gateway.address]));
  await eventually("the newest progress is stored", async () => {
    const read = await gateway.results.read(callId);
    const json = read.kind === "pending" ? read.progress?.json : undefined;
    if (json !== undefined && progressRead.at(-1) !== json) progressRead.push(json);
    return json === '{"step":100}';
  });
  expect(progressRead.length).toBeLessThanOrEqual(2);
  end();
  expect(await resultOf(gateway.results)).toMatchObject({ kind: "answer" });
});

test("without a gateway for deliveries, no result of a long job is kept, and that is logged once", async () => {
  handler = () => ({ body: "done" });
  const runner = await startRunner([]);
  await offer(runner);
  await eventually("it has ended", () => hasLogged(runner, "job.finished", callId));
  expect(await waiting()).toBe(0);
  expect(runner.log.events.filter(({ event }) => event === "results.delivery_disabled")).toHaveLength(1);
});
