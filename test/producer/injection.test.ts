import { randomBytes } from "node:crypto";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Inject, Refused } from "../../services/producer/deliver.ts";
import { contentDigest, verifyMessage } from "../../shared/crypto/message-signature.ts";
import { Secret } from "../../shared/crypto/secret.ts";
import { type PrivateRedis, startRedis } from "../../shared/dev/redis.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { isMetadataHeader } from "../../shared/job-call/job-call.ts";
import { JOB_NAME, JOB_OPTIONS } from "../../shared/queue/protocol.ts";
import { type FakeAnswer, type FakeRunner, startFakeRunner } from "../support/fake-runner.ts";
import { aCall, RUNNER_SECRET, startProducer } from "../support/producer.ts";
import { type Fault, type RedisProxy, startRedisProxy } from "../support/redis-proxy.ts";

let redis: PrivateRedis;
let runner: FakeRunner;
let stack: ReturnType<typeof startProducer>;
let proxy: RedisProxy | undefined;

beforeAll(async () => {
  redis = await startRedis({ env: process.env });
});
afterAll(() => redis.stop());
beforeEach(async () => {
  runner = await startFakeRunner();
  stack = startProducer({ redisUrl: redis.url, runnerUrl: runner.url });
  await stack.redis.flushdb();
});
afterEach(async () => {
  await stack.close();
  await proxy?.close();
  await runner.close();
});

/** Answers the first offers in this order, then 200. */
function moods(...answers: FakeAnswer[]): void {
  const left = [...answers];
  runner.answer = () => left.shift() ?? { status: 200 };
}

describe("the request a runner gets", () => {
  test("POST /jobs/{job_id} with the bytes, the content type, the metadata, the key and the trace context", async () => {
    const body = randomBytes(300);
    const traceparent = `00-${"1".repeat(32)}-${"2".repeat(16)}-01`;
    const call = aCall({ job_id: 42, body, content_type: "application/x-thing", traceparent });
    await stack.add(call);
    await stack.saw("call.injected");
    const [offer] = runner.offers;
    expect(offer).toMatchObject({ method: "POST", path: "/jobs/42" });
    expect(offer?.body.equals(body)).toBe(true);
    expect(offer?.headers).toMatchObject({
      "content-type": "application/x-thing",
      "content-length": "300",
      "idempotency-key": call.id,
      "x-platform-service-id": "7",
      "x-platform-call-id": call.id,
      "x-webhook-path": "/a",
      "x-webhook-origin": "webhook",
      "content-digest": contentDigest(call.sha256),
      traceparent,
    });
  });

  test("an empty body without a content type has length 0 and no Content-Type", async () => {
    await stack.add(aCall({ body: Buffer.alloc(0) }));
    await stack.saw("call.injected");
    expect(runner.offers[0]?.headers["content-length"]).toBe("0");
    expect(runner.offers[0]?.headers).not.toHaveProperty("content-type");
  });

  test("its signature covers method, path, digest, content type, key and every metadata header", async () => {
    await stack.add(aCall({ content_type: "text/plain" }));
    await stack.saw("call.injected");
    const offer = runner.offers[0]!;
    const headers = Object.fromEntries(
      Object.entries(offer.headers).map(([name, value]) => [name, [String(value)]]),
    );
    const mustCover = (name: string) => isMetadataHeader(name, "X-PLATFORM");
    const verify = (path: string, changed = {}) =>
      verifyMessage(
        [new Secret(RUNNER_SECRET)],
        { method: "POST", path, headers: { ...headers, ...changed } },
        { nowSec: Date.now() / 1000, maxAgeSec: 60, mustCover },
      );
    expect(() => verify("/jobs/1")).not.toThrow();
    expect(() => verify("/jobs/2")).toThrow();
    for (const name of [
      "content-digest",
      "content-type",
      "idempotency-key",
      "x-webhook-path",
      "x-platform-service-id",
    ]) {
      expect(() => verify("/jobs/1", { [name]: ["swapped"] }), name).toThrow();
    }
  });
});

const retried: [string, FakeAnswer][] = [
  ["408", { status: 408 }],
  ["409 without Retry-After", { status: 409 }],
  ["425", { status: 425 }],
  ["500", { status: 500 }],
  ["503", { status: 503 }],
  ["a redirect, which is not followed", { status: 302, headers: { Location: "/elsewhere" } }],
  ["a broken connection", "cut"],
  ["silence until the time-out", "silence"],
];

describe("answers that are tried again", () => {
  test.each(retried)("%s", async (_what, answer) => {
    moods(answer, answer);
    const call = aCall();
    await stack.add(call);
    await stack.saw("call.injected");
    expect(runner.offers.map((offer) => [offer.path, offer.headers["idempotency-key"]])).toEqual(
      Array(3).fill(["/jobs/1", call.id]),
    );
    expect(stack.count("call.delayed")).toBe(2);
  });

  test.each(retried)("%s: failed when the attempts are spent", async (_what, answer) => {
    runner.answer = () => answer;
    const call = aCall();
    await stack.add(call);
    await stack.saw("call.failed");
    await eventually("it lies among the failed", async () => (await stack.failed()).length === 1);
    expect(runner.offers).toHaveLength(3);
    expect(await stack.records.attempts(call.id)).toHaveLength(3);
  });
});

describe("answers that fail at once", () => {
  test.each([400, 401, 403, 404, 410, 413, 415, 422])("%i", async (status) => {
    runner.answer = () => ({ status, body: '{"detail": "no thank you"}' });
    const call = aCall();
    await stack.add(call);
    await eventually("it lies among the failed", async () => (await stack.failed()).length === 1);
    expect(runner.offers).toHaveLength(1);
    const [job] = await stack.failed();
    expect(job?.failedReason).toBe(`runner.refused: ${status} {"detail": "no thank you"}`);
    expect(job?.data).toEqual(call);
    expect(await stack.records.attempts(call.id)).toMatchObject([
      { code: "runner.refused", worker: stack.producer.workerId },
    ]);
  });

  test("a stored call whose bytes no longer match their hash, or that is of another version", async () => {
    const call = aCall();
    await stack.queue.add(JOB_NAME, { ...call, body: "AAAA" }, { ...JOB_OPTIONS, jobId: call.id });
    const other = aCall();
    await stack.queue.add(JOB_NAME, { ...other, v: 2 } as never, { ...JOB_OPTIONS, jobId: other.id });
    await eventually("both lie among the failed", async () => (await stack.failed()).length === 2);
    expect((await stack.failed()).map((job) => job.failedReason)).toEqual(
      Array(2).fill(expect.stringMatching(/^call\.corrupt: /)),
    );
    expect(runner.offers).toEqual([]);
  });
});

describe("answers that only delay", () => {
  test.each([
    ["429", { status: 429 }],
    ["429 with Retry-After", { status: 429, headers: { "Retry-After": "0" } }],
    ["409 with Retry-After", { status: 409, headers: { "Retry-After": "0" } }],
  ] as const)("%s, more often than there are attempts, spends none", async (_what, answer) => {
    moods(...Array<FakeAnswer>(6).fill(answer));
    await stack.add(aCall());
    await stack.saw("call.injected");
    expect(runner.offers).toHaveLength(7);
    expect(stack.log.events.at(-1)).toMatchObject({ event: "call.injected", fields: { attempt: 1 } });
  });

  test.each([
    ["429", 429, (): string => "1"],
    ["409", 409, (): string => "1"],
    ["503", 503, (): string => "1"],
    ["an HTTP date", 503, (): string => new Date(Date.now() + 3000).toUTCString()],
  ] as const)("Retry-After is honoured: %s", async (_what, status, retryAfter) => {
    moods({ status, headers: { "Retry-After": retryAfter() } });
    await stack.add(aCall());
    await stack.saw("call.injected");
    const [first, second] = runner.offers;
    expect(second!.at - first!.at).toBeGreaterThanOrEqual(900);
  });

  test("one call answered 429 does not slow the others; different calls in a row do", async () => {
    runner.answer = (offer) =>
      offer.path === "/jobs/429" ? { status: 429, headers: { "Retry-After": "1" } } : { status: 200 };
    await stack.add(aCall({ job_id: 429 }));
    for (let i = 0; i < 20; i++) await stack.add(aCall());
    await stack.saw("call.injected", 20);
    expect(stack.count("queue.throttled")).toBe(0);
    for (let i = 0; i < 3; i++) await stack.add(aCall({ job_id: 429 }));
    await stack.saw("queue.throttled");
  });
});

test("a call whose end is recorded is not offered again, however often it is added", async () => {
  const call = aCall();
  await stack.add(call);
  await stack.saw("call.injected");
  await stack.add(call);
  await stack.saw("call.known");
  const discarded = aCall();
  await stack.records.discarded(discarded, Date.now());
  await stack.add(discarded);
  await stack.saw("call.known", 2);
  expect(runner.offers).toHaveLength(1);
  await eventually(
    "the queue is empty",
    async () => (await stack.queue.getJobCountByTypes("wait", "active", "delayed", "failed")) === 0,
  );
});

test("nothing of an injected call stays but its mark, and the mark expires", async () => {
  const call = aCall();
  await stack.add(call);
  await stack.saw("call.injected");
  await eventually("the job is gone", async () => (await stack.queue.getJob(call.id)) === undefined);
  const left = await stack.redis.keys(`*${call.id}*`);
  expect(left).toEqual([`{postern}:call:${call.id}`]);
  expect(await stack.redis.pttl(left[0]!)).toBeGreaterThan(3_500_000);
});

test("a stop takes no new call and lets the one in hand end", async () => {
  let answer: (answer: FakeAnswer) => void = () => {};
  runner.answer = () =>
    new Promise((resolve) => {
      answer = resolve;
    });
  await stack.add(aCall());
  await eventually("it is offered", () => runner.offers.length === 1);
  const closed = stack.producer.close(3000);
  await stack.add(aCall());
  answer({ status: 200 });
  await closed;
  expect(stack.count("call.injected")).toBe(1);
  expect(runner.offers).toHaveLength(1);
  expect(await stack.queue.getWaitingCount()).toBe(1);
});

test("a stop that will not wait gives the call back at once, without spending an attempt", async () => {
  runner.answer = () => "silence";
  const call = aCall();
  await stack.add(call);
  await eventually("it is offered", () => runner.offers.length === 1);
  await stack.producer.close(50);
  expect(stack.count("call.given_back")).toBe(1);
  await eventually("it waits", async () => (await stack.queue.getJobCountByTypes("wait", "delayed")) === 1);
  expect(await stack.queue.getJob(call.id)).toMatchObject({ attemptsMade: 0 });
});

describe("calls taken beyond those that are injected at once", () => {
  /** Ten of fifteen calls are with the runner, which keeps them; the other five are taken too. */
  async function fifteenTaken(): Promise<void> {
    for (let i = 0; i < 15; i++) await stack.add(aCall());
    await eventually("all are taken", async () => (await stack.queue.getActiveCount()) === 15);
    await eventually("ten are offered", () => runner.offers.length === 10);
  }

  test("wait here, not at the runner", async () => {
    let withRunner = 0;
    let most = 0;
    const answers: (() => void)[] = [];
    runner.answer = async () => {
      withRunner += 1;
      most = Math.max(most, withRunner);
      await new Promise<void>((resolve) => answers.push(resolve));
      withRunner -= 1;
      return { status: 200 };
    };
    await fifteenTaken();
    for (let given = 0; given < 15; given++) {
      await eventually("one is offered", () => answers.length > 0);
      answers.shift()?.();
    }
    await stack.saw("call.injected", 15);
    expect(most).toBe(10);
  });

  test("are given back by a stop without having been offered", async () => {
    runner.answer = () => "silence";
    await fifteenTaken();
    await stack.producer.close(50);
    expect(stack.count("call.given_back")).toBe(15);
    expect(runner.offers).toHaveLength(10);
    expect(await stack.queue.getJobCountByTypes("wait", "delayed", "prioritized")).toBe(15);
  });
});

describe("trouble of our own is not the runner's", () => {
  test("a 2xx that cannot be recorded spends no attempt and fails nothing", async () => {
    await stack.close();
    proxy = await startRedisProxy(redis.url);
    stack = startProducer({ redisUrl: proxy.url, runnerUrl: runner.url, attempts: 1 });
    const full: Fault = { kind: "rewrite", words: ["EVAL", "return redis.error_reply('OOM')", "0"] };
    let failures = 2;
    proxy.onCommand = (words) => (words.includes("INJECTED") && failures-- > 0 ? full : undefined);
    await stack.add(aCall());
    await stack.saw("call.injected");
    expect(stack.count("call.record_failed")).toBe(2);
    expect([stack.count("call.failed"), stack.count("call.delayed"), runner.offers.length]).toEqual([
      0, 0, 3,
    ]);
  });

  test("a connection to Redis on which nothing comes back is made anew, and the worker is not alive meanwhile", async () => {
    await stack.close();
    proxy = await startRedisProxy(redis.url);
    stack = startProducer({ redisUrl: proxy.url, runnerUrl: runner.url });
    await eventually("it is alive", () => stack.producer.isAlive());
    let silent = true;
    proxy.onCommand = (words) =>
      silent && words.includes("{postern}:workers") ? { kind: "hang" } : undefined;
    await eventually("it is not", () => !stack.producer.isAlive());
    silent = false;
    await eventually("it is again", () => stack.producer.isAlive());
    await stack.add(aCall());
    await stack.saw("call.injected");
  });
});

describe("as a library", () => {
  test("createProducer({ inject }): a plain error is tried again, Refused fails", async () => {
    const seen: string[] = [];
    const inject = async ({ call, body }: { call: { id: string }; body: Buffer }) => {
      seen.push(`${call.id} ${body}`);
      if (String(body) === "bad") throw new Refused("I cannot use this");
      if (seen.length === 1) throw new Error("not yet");
    };
    await stack.close();
    stack = startProducer({ redisUrl: redis.url, inject });
    const good = aCall({ body: Buffer.from("good") });
    await stack.add(good);
    await stack.saw("call.injected");
    expect(seen).toEqual(Array(2).fill(`${good.id} good`));
    await stack.add(aCall({ body: Buffer.from("bad") }));
    await stack.saw("call.failed");
    expect(stack.log.events.at(-1)?.fields).toMatchObject({
      code: "runner.refused",
      reason: "I cannot use this",
    });
  });

  test("an inject that waits is told by hold.signal that the call is no longer this worker's", async () => {
    let waits = false;
    const inject: Inject = (_, { signal }) => {
      waits = true;
      return new Promise((_resolve, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason as Error)),
      );
    };
    await stack.close();
    stack = startProducer({ redisUrl: redis.url, inject });
    await stack.add(aCall());
    await eventually("it has the call", () => waits);
    await stack.producer.close(0);
    expect(stack.count("call.given_back")).toBe(1);
  });
});
