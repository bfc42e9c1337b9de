import { beforeAll, describe, expect, test } from "vitest";
import { callbackId } from "../../../../shared/call/callback.ts";
import type { JobCall } from "../../../../shared/call/job-call.ts";
import type { DeliverResult, Delivery } from "../../../../shared/call-search/deliver-result.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { silentLogger } from "../../../../shared/platform/log/logger.ts";
import { systemClock } from "../../../../shared/platform/time/clock.ts";
import { createDiscard } from "../../../../shared/queue/discard.ts";
import { createFailedCalls } from "../../../../shared/queue/failed.ts";
import { createReplay } from "../../../../shared/queue/replay.ts";
import { useFakeRunner } from "../../../fixtures/fake-runner.ts";
import { aCall, TEST_CALLBACKS, type TestProducerOptions, useProducer } from "../../../fixtures/producer.ts";
import { type TestReceiver, useReceivers } from "../../../fixtures/receivers.ts";
import { keys } from "../../../fixtures/redis.ts";
import { deliverResultOn } from "../../../support/results.ts";

const producers = useProducer();
const runner = useFakeRunner();
const startReceiver = useReceivers();
let deliver: DeliverResult;
beforeAll(() => {
  deliver = deliverResultOn(producers.redis.partition);
});

const operatorOf = (id: string) => ({
  partition: producers.redis.partitions.of(id),
  clock: systemClock,
  log: silentLogger,
  by: "test",
});
const WHY = { selection: "by the test" };

async function failed(id: string) {
  const found = () => createFailedCalls(producers.redis.partitions.of(id)).find(id);
  await eventually(`${id} has failed`, async () => (await found()) !== undefined);
  return (await found())!;
}

const start = (options: TestProducerOptions = {}) => producers.start({ runnerUrl: runner.url, ...options });

function callWithCallback(receiver: TestReceiver, fields: Parameters<typeof aCall>[0] = {}): JobCall {
  return aCall({ keep_result: true, callback: receiver.target, ...fields });
}

const DELIVERED: Delivery = {
  ...{ kind: "answer", status: 200, contentType: "text/plain", at: 1_700_000_000_000, by: "delivery" },
  body: Buffer.from("delivered"),
};
const DELIVERED_FAILURE: Delivery = {
  ...{ kind: "failure", status: 500, contentType: undefined, at: 1_700_000_000_000, by: "delivery" },
  title: "The job failed",
};

/**
 * Resolves once no call or callback is in flight. A callback stays in flight until its producer has read the receiver's
 * answer, which is after the receiver got it.
 */
const untilNothingWaits = (...besides: "failed"[]): Promise<unknown> =>
  eventually(
    "nothing waits",
    async () => (await producers.queues.countIn("wait", "delayed", "active", ...besides)) === 0,
  );

describe("a callback reports the end of a call:", () => {
  test("that the runner accepted it, with the runner's answer", async () => {
    runner.answer = () => ({ status: 201, headers: { "content-type": "application/json" }, body: '{"a":1}' });
    const receiver = await startReceiver("/hook?a=b");
    const call = callWithCallback(receiver, { job_id: 3 });
    const access = { result_url: "/webhooks/calls/x/result", result_token: "rt_x" };
    call.callback = { ...receiver.target, ...access };
    await producers.add(call);
    start();
    const { id, event, headers, path } = await receiver.got();
    expect(id).toBe(callbackId(call.id, "call.completed"));
    expect(path).toBe("/hook?a=b");
    expect(headers).toMatchObject({ "content-type": "application/json", "user-agent": "Postern" });
    expect(event).toEqual({
      type: "call.completed",
      timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      data: {
        callback_url: receiver.url,
        ...{ call_id: call.id, origin: "webhook", service_id: 7, job_index: 3, state: "injected" },
        result: { status: 201, content_type: "application/json", body: '{"a":1}' },
        ...access,
      },
    });
  });

  test("that it failed for good, with the code and the runner's problem", async () => {
    const problem = { title: "No such page", detail: "page 3", stack: "at x" };
    runner.answer = () => ({
      ...{ status: 422, headers: { "content-type": "application/problem+json" } },
      body: JSON.stringify(problem),
    });
    const receiver = await startReceiver();
    const call = callWithCallback(receiver);
    await producers.add(call);
    start();
    const { id, event } = await receiver.got();
    expect(id).toBe(callbackId(call.id, "call.failed"));
    expect(event).toMatchObject({ type: "call.failed", data: { call_id: call.id, state: "failed" } });
    expect(event.data["failure"]).toEqual({
      code: "runner.refused",
      title: "No such page",
      detail: "page 3",
    });
    expect(event.data["result"]).toBeUndefined();
  });

  test("even if the call's runner is a function and the call keeps no result", async () => {
    const receiver = await startReceiver();
    const { keep_result: _, ...call } = callWithCallback(receiver);
    await producers.add(call);
    start({ inject: async () => {} });
    const { event } = await receiver.got();
    expect(event.data).toEqual({
      callback_url: receiver.url,
      ...{ call_id: call.id, origin: "webhook", service_id: 7, job_index: 1, state: "injected" },
    });
  });

  test("even if the call must not be read, because three producers ended while it was in flight", async () => {
    const receiver = await startReceiver();
    const call = callWithCallback(receiver);
    await producers.add(call);
    await producers.redis.client.hset(keys.inQueue("webhook/7/1", call.id), "stc", 3);
    start();
    const { event } = await receiver.got();
    expect(event).toMatchObject({
      type: "call.failed",
      data: { call_id: call.id, failure: { code: "call.poison_pill" } },
    });
    expect(runner.offers).toEqual([]);
  });

  test("a call without a callback reports to no receiver", async () => {
    const receiver = await startReceiver();
    await producers.add(aCall());
    await producers.add(callWithCallback(receiver));
    start();
    await receiver.got();
    await untilNothingWaits("failed");
    expect(receiver.received).toHaveLength(1);
  });
});

describe("a callback with a long result", () => {
  test("leaves out the result if it is longer than a callback may carry", async () => {
    runner.answer = () => ({
      status: 200,
      headers: { "content-type": "text/plain" },
      body: "x".repeat(1001),
    });
    const receiver = await startReceiver();
    await producers.add(callWithCallback(receiver));
    start();
    const { event } = await receiver.got();
    expect(event.data["result"]).toEqual({ status: 200, content_type: "text/plain" });
  });

  test("has the result as base64 if it is not text", async () => {
    const bytes = Buffer.from([0xff, 0xfe, 0]);
    const receiver = await startReceiver();
    await producers.add(callWithCallback(receiver));
    start({ inject: async () => ({ status: 200, body: bytes }) });
    const { event } = await receiver.got();
    expect(event.data["result"]).toEqual({ status: 200, body_base64: bytes.toString("base64") });
  });
});

describe("a callback of a call whose runner delivers its result later", () => {
  async function accepted(
    receiver: TestReceiver,
    fields: Parameters<typeof aCall>[0] = {},
  ): Promise<JobCall> {
    runner.answer = () => ({ status: 202 });
    const call = callWithCallback(receiver, fields);
    await producers.add(call);
    const { saw } = start();
    await saw("call.injected");
    return call;
  }

  test.each([true, false])("is sent at the delivery and not before; keeps results: %s", async (keeps) => {
    const receiver = await startReceiver();
    const call = await accepted(receiver, { keep_result: keeps });
    expect(await producers.queues.countIn("wait", "delayed", "active")).toBe(0);
    expect(await deliver(call.id, DELIVERED)).toBe("stored");
    const { event } = await receiver.got();
    expect(event).toMatchObject({ type: "call.completed", timestamp: "2023-11-14T22:13:20.000Z" });
    expect(event.data["result"]).toEqual({ status: 200, content_type: "text/plain", body: "delivered" });
  });

  test("is sent once, even if the result is delivered several times", async () => {
    const receiver = await startReceiver();
    const call = await accepted(receiver);
    await deliver(call.id, DELIVERED);
    await receiver.got();
    expect(await deliver(call.id, DELIVERED)).toBe("same");
    await untilNothingWaits();
  });

  test("is sent for a delivered failure, and again with another id for a later delivered answer", async () => {
    const receiver = await startReceiver();
    const call = await accepted(receiver);
    await deliver(call.id, DELIVERED_FAILURE);
    const first = await receiver.got(1);
    expect(first.event).toMatchObject({ type: "call.failed", data: { state: "injected" } });
    expect(first.event.data["failure"]).toEqual({ status: 500, title: "The job failed" });
    await deliver(call.id, DELIVERED);
    const second = await receiver.got(2);
    expect(second.event.type).toBe("call.completed");
    expect([first.id, second.id]).toEqual([
      callbackId(call.id, "call.failed"),
      callbackId(call.id, "call.completed"),
    ]);
  });

  test.each([
    ["call.completed", DELIVERED],
    ["call.failed", DELIVERED_FAILURE],
  ])("is sent as %s if the delivery comes before the runner's 202", async (type, delivery) => {
    const receiver = await startReceiver();
    const call = callWithCallback(receiver);
    runner.answer = async () => {
      await deliver(call.id, delivery);
      return { status: 202 };
    };
    await producers.add(call);
    start();
    const { event } = await receiver.got();
    expect(event.type).toBe(type);
    expect(receiver.received).toHaveLength(1);
  });
});

describe("each ending of a call is reported once:", () => {
  test("a failed call that is replayed and then accepted sends a second callback with another id", async () => {
    runner.answer = () => ({ status: 400 });
    const receiver = await startReceiver();
    const call = callWithCallback(receiver);
    await producers.add(call);
    start();
    const first = await receiver.got(1);
    runner.answer = () => ({ status: 200 });
    await createReplay(operatorOf(call.id))(await failed(call.id), WHY);
    const second = await receiver.got(2);
    expect([first, second].map(({ event }) => event.type)).toEqual(["call.failed", "call.completed"]);
    expect(first.id).not.toBe(second.id);
  });

  test("a call that fails again after a replay sends its callback again with the same id", async () => {
    runner.answer = () => ({ status: 400 });
    const receiver = await startReceiver();
    const call = callWithCallback(receiver);
    await producers.add(call);
    start();
    const first = await receiver.got(1);
    await eventually(
      "the callback was sent",
      async () => (await producers.records.state(first.id)) === "INJECTED",
    );
    runner.answer = () => ({ status: 403 });
    await createReplay(operatorOf(call.id))(await failed(call.id), WHY);
    const second = await receiver.got(2);
    expect(second.id).toBe(first.id);
    expect(second.event.data["failure"]).toMatchObject({ code: "runner.refused" });
  });

  test("a callback that is sent again after a new failure has a new log", async () => {
    runner.answer = () => ({ status: 400 });
    const receiver = await startReceiver();
    receiver.answer = () => ({ status: [500, 200, 503][receiver.received.length - 1] ?? 200 });
    const call = callWithCallback(receiver);
    await producers.add(call);
    const { saw } = start();
    const { id } = await receiver.got(2);
    await saw("call.injected");
    await createReplay(operatorOf(call.id))(await failed(call.id), WHY);
    await receiver.got(4);
    await saw("call.injected", 2);
    expect(await producers.records.attempts(id)).toMatchObject([{ n: 1, reason: "503" }]);
  });

  test("a discarded call sends no callback", async () => {
    runner.answer = () => ({ status: 400 });
    const receiver = await startReceiver();
    const call = callWithCallback(receiver);
    await producers.add(call);
    start();
    await receiver.got(1);
    await createDiscard(operatorOf(call.id))(await failed(call.id), WHY);
    await untilNothingWaits("failed");
    expect(receiver.received).toHaveLength(1);
  });
});

describe("a callback's receiver", () => {
  test("that fails gets the callback again, with the same id and a new signature, until it accepts", async () => {
    const receiver = await startReceiver();
    receiver.answer = () => ({ status: receiver.received.length < 3 ? 500 : 200 });
    const call = callWithCallback(receiver);
    await producers.add(call);
    const { saw } = start();
    await receiver.got(3);
    await saw("call.injected", 2);
    expect(new Set(receiver.received.map(({ id, body }) => `${id} ${body}`)).size).toBe(1);
    expect(await producers.records.attempts(callbackId(call.id, "call.completed"))).toMatchObject([
      { code: "callback.failed", reason: "500" },
      { code: "callback.failed" },
    ]);
  });

  test("that never accepts leaves the callback among the failed calls, where it can be replayed", async () => {
    const receiver = await startReceiver();
    receiver.answer = () => ({ status: 500 });
    const call = callWithCallback(receiver);
    await producers.add(call);
    const { saw } = start();
    await saw("call.failed");
    const found = await failed(callbackId(call.id, "call.completed"));
    expect(found).toMatchObject({ origin: "callback", code: "callback.failed", attempts: 3 });
    receiver.answer = () => ({ status: 200 });
    await createReplay(operatorOf(found.id))(found, WHY);
    await receiver.got(4);
    await saw("call.injected", 2);
  });

  test("that answers 410 gets no further request", async () => {
    const receiver = await startReceiver();
    receiver.answer = () => ({ status: 410 });
    const call = callWithCallback(receiver);
    await producers.add(call);
    start();
    expect(await failed(callbackId(call.id, "call.completed"))).toMatchObject({ code: "callback.gone" });
    expect(receiver.received).toHaveLength(1);
  });

  test("that redirects is not followed", async () => {
    const other = await startReceiver();
    const receiver = await startReceiver();
    receiver.answer = () => ({ status: 307, headers: { location: other.url } });
    const call = callWithCallback(receiver);
    await producers.add(call);
    start();
    const found = await failed(callbackId(call.id, "call.completed"));
    expect(found.reason).toBe("307 (redirects are not followed)");
    expect(other.received).toEqual([]);
  });

  test("that sends Retry-After gets no earlier request", async () => {
    const receiver = await startReceiver();
    receiver.answer = () => ({ status: 503, headers: { "retry-after": "3600" } });
    await producers.add(callWithCallback(receiver));
    const { saw, log } = start();
    await saw("call.delayed");
    const [delayed] = log.events.filter(({ event }) => event === "call.delayed");
    expect(delayed?.fields).toMatchObject({ code: "callback.failed", waitMs: 3_600_000, spent: true });
  });

  test("that does not answer, or closes the connection, gets another request", async () => {
    const receiver = await startReceiver();
    const answers = ["cut", "silence", { status: 200 }] as const;
    receiver.answer = () => answers[receiver.received.length - 1] ?? "cut";
    await producers.add(callWithCallback(receiver));
    const { log, saw } = start({ callbacks: { ...TEST_CALLBACKS, timeout_ms: 100 } });
    await saw("call.injected", 2);
    const codes = log.events
      .filter(({ event }) => event === "call.delayed")
      .map(({ fields }) => fields["code"]);
    expect(codes).toEqual(["callback.unanswered", "callback.unanswered"]);
  });

  test("whose address is not allowed gets no connection, and its callback fails", async () => {
    const receiver = await startReceiver();
    const call = callWithCallback(receiver);
    await producers.add(call);
    start({ callbacks: { ...TEST_CALLBACKS, allow_cidrs: [] } });
    const found = await failed(callbackId(call.id, "call.completed"));
    expect(found.code).toBe("callback.address_forbidden");
    expect(receiver.received).toEqual([]);
  });

  test.each([
    "ftp://127.0.0.1/",
    "file:///etc/passwd",
    "http://user:pass@127.0.0.1/",
    "http://user@127.0.0.1/",
    "not a url",
  ])("with the URL %s is never called, even if that URL is in the call in Redis", async (url) => {
    const receiver = await startReceiver();
    const call = callWithCallback(receiver);
    call.callback = {
      ...receiver.target,
      url: url.replace("127.0.0.1", receiver.url.slice("http://".length)),
    };
    await producers.add(call);
    start();
    const found = await failed(callbackId(call.id, "call.completed"));
    expect(found.code).toBe("callback.address_forbidden");
    expect(receiver.received).toEqual([]);
  });
});
