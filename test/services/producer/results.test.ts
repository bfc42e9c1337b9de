import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type Inject, Refused } from "../../../services/producer/producer.ts";
import type { JobCall } from "../../../shared/call/job-call.ts";
import { createResults, type Results } from "../../../shared/call/results/store.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { type FakeAnswer, useFakeRunner } from "../../fixtures/fake-runner.ts";
import { aCall, type TestProducerOptions, useProducer } from "../../fixtures/producer.ts";
import { keys } from "../../fixtures/redis.ts";
import type { RecordingLog } from "../../support/recording-log.ts";

const producers = useProducer();
const runner = useFakeRunner();
let results: Results;
beforeAll(() => {
  results = createResults(producers.redis.partition);
});

const kept = () => aCall({ keep_result: true });
const read = ({ id }: JobCall) => results.read(id);
const injects = (inject: Inject) => ({ inject });

const logs: RecordingLog[] = [];
beforeEach(() => void logs.splice(0));

/** Starts a producer, adds the call, and waits until a producer of this test has brought the call to its end. */
async function run(call: JobCall, options: TestProducerOptions = {}) {
  const { log } = producers.start({ runnerUrl: runner.url, ...options });
  logs.push(log);
  await producers.add(call);
  const of = (event: string) =>
    logs
      .flatMap(({ events }) => events)
      .filter(({ event: name, fields }) => name === event && fields["callId"] === call.id);
  await eventually("it has ended", () => of("call.injected").length + of("call.failed").length > 0);
  return {
    count: (event: string) => of(event).length,
    delays: of("call.delayed").map(({ fields }) => fields["code"]),
  };
}

async function answered(answer: FakeAnswer, options?: TestProducerOptions) {
  runner.answer = () => answer;
  const call = kept();
  await run(call, options);
  return read(call);
}

describe("the runner's 2xx answer is the result of a call that keeps it:", () => {
  test("with its status, Content-Type and body", async () => {
    const headers = { "content-type": "text/csv; charset=latin1" };
    expect(await answered({ status: 201, headers, body: "a;b" })).toMatchObject({
      ...{ kind: "answer", status: 201, contentType: "text/csv; charset=latin1", body: Buffer.from("a;b") },
      by: "answer",
    });
  });

  test("without a body or a Content-Type, if the answer has none", async () => {
    const none = { kind: "answer", contentType: undefined, body: Buffer.alloc(0) };
    expect(await answered({ status: 204 })).toMatchObject({ ...none, status: 204 });
    expect(await answered({ status: 200 })).toMatchObject({ ...none, status: 200 });
  });

  test("without a Content-Type that is too long to be valid", async () => {
    const headers = { "content-type": `text/plain; x=${"y".repeat(8000)}` };
    const result = await answered({ status: 200, headers, body: "a" });
    expect(result).toMatchObject({ kind: "answer", contentType: undefined, body: Buffer.from("a") });
  });

  test("up to the limit; if its body is longer, only this fact is stored", async () => {
    const limits = { results: { result_bytes_max: 1000 } };
    const answerOf = (bytes: number) => answered({ status: 200, body: "x".repeat(bytes) }, limits);
    expect(await answerOf(1000)).toMatchObject({ kind: "answer", body: Buffer.alloc(1000, "x") });
    expect(await answerOf(1001)).toMatchObject({ kind: "too_long", status: 200 });
    expect(await answerOf(5_000_000)).toMatchObject({ kind: "too_long", status: 200 });
  });

  test("except a 202: the result is then awaited", async () => {
    expect(await answered({ status: 202, body: "stored" })).toMatchObject({
      kind: "pending",
      state: "INJECTED",
    });
  });

  test("and is gone if the runner no longer has its body", async () => {
    const headers = { "idempotent-body": "forgotten", "content-type": "text/plain" };
    expect(await answered({ status: 200, headers })).toEqual({ kind: "gone" });
  });

  test("and headers that are too long count as no answer, so the call is sent again", async () => {
    const bad = { status: 200, headers: { "x-huge": "x".repeat(40_000) } };
    runner.answer = () => (runner.offers.length === 1 ? bad : { status: 200, body: "second" });
    const call = kept();
    const { delays } = await run(call);
    expect(delays).toEqual(["runner.disconnected"]);
    expect(await read(call)).toMatchObject({ kind: "answer", body: Buffer.from("second") });
  });
});

test("a call that does not keep its result stores none", async () => {
  runner.answer = () => ({ status: 200, body: "secret" });
  const call = aCall();
  await run(call);
  expect(await read(call)).toEqual({ kind: "none kept" });
  expect(await producers.redis.client.keys("*result*")).toEqual([]);
  expect(await producers.redis.client.hexists(keys.record(call.id), "rs")).toBe(0);
});

test("the record of a call is kept longer than its result, even if its own window is short", async () => {
  const call = kept();
  await run(call);
  const [result, record] = await Promise.all([
    producers.redis.client.pttl(keys.result(call.id)),
    producers.redis.client.pttl(keys.record(call.id)),
  ]);
  expect(result).toBeGreaterThan(86_000_000);
  expect(record - result).toBeGreaterThan(3_500_000);
});

describe("a program's own inject", () => {
  test("returns the result as text or as bytes", async () => {
    for (const body of ["text", Buffer.from("text"), new Uint8Array(Buffer.from("text"))]) {
      const call = kept();
      await run(
        call,
        injects(async () => ({ status: 200, contentType: "text/plain", body })),
      );
      expect(await read(call)).toMatchObject({
        kind: "answer",
        contentType: "text/plain",
        body: Buffer.from("text"),
      });
    }
  });

  test("that resolves with nothing stores no result", async () => {
    const call = kept();
    await run(
      call,
      injects(async () => {}),
    );
    expect(await read(call)).toEqual({ kind: "none kept" });
  });

  test("that resolves with an answer other than 2xx has accepted the call, and its result is gone", async () => {
    const call = kept();
    const { count } = await run(
      call,
      injects(async () => ({ status: 500, body: "no" })),
    );
    expect([count("call.injected"), await read(call)]).toEqual([1, { kind: "gone" }]);
  });

  test("explains by a problem why it refuses a call", async () => {
    const call = kept();
    const problem = { title: "No such topic", detail: "the topic has to be one of the list" };
    await run(
      call,
      injects(() => Promise.reject(new Refused("internal words", { problem }))),
    );
    expect(await read(call)).toMatchObject({ kind: "failed", code: "runner.refused", ...problem });
  });
});

describe("the result of a call that failed for good is its code,", () => {
  const problemType = { "content-type": "application/problem+json; charset=utf-8" };
  const problem = (fields: object, headers = problemType) => {
    return answered({ status: 422, headers, body: JSON.stringify(fields) });
  };

  test("with the title and detail of its runner's problem document, and no other member", async () => {
    const fields = { title: "Too many pages", detail: "at most 20", stack: "at main.ts", instance: "/x" };
    expect(await problem(fields)).toEqual({
      ...{ kind: "failed", code: "runner.refused", title: "Too many pages", detail: "at most 20" },
      at: expect.any(Number),
    });
  });

  test("with texts that are cut and have no control characters", async () => {
    const result = await problem({ title: `a\u0000\n${"b".repeat(300)}`, detail: "\u{1F600}".repeat(1500) });
    expect(result).toMatchObject({ title: `a ${"b".repeat(198)}`, detail: "\u{1F600}".repeat(1000) });
  });

  test("and only the code if the runner sent no problem document, no JSON or no texts", async () => {
    const bare = { kind: "failed", code: "runner.refused", at: expect.any(Number) };
    expect(await problem({ title: "a" }, { "content-type": "application/json" })).toEqual(bare);
    expect(await problem({ title: 1, detail: {} })).toEqual(bare);
    expect(await answered({ status: 400, headers: problemType, body: "{" })).toEqual(bare);
    expect(await answered({ status: 400, headers: problemType, body: "null" })).toEqual(bare);
  });

  test("by its last attempt", async () => {
    runner.answer = () => ({
      status: 500,
      headers: problemType,
      body: `{"title":"try ${runner.offers.length}"}`,
    });
    const call = kept();
    await run(call);
    expect(await read(call)).toMatchObject({ kind: "failed", code: "runner.failed", title: "try 3" });
  });

  test("and is not stored if the call keeps no result", async () => {
    runner.answer = () => ({ status: 400, headers: problemType, body: '{"title":"a"}' });
    const call = aCall();
    await run(call);
    expect(await read(call)).toEqual({ kind: "unknown" });
  });
});

describe("a call whose 2xx answer is incomplete", () => {
  test("is sent again under the same key, and the complete answer becomes the result", async () => {
    runner.answer = () =>
      runner.offers.length === 1
        ? { status: 200, body: "who", after: "cut" }
        : { status: 200, body: "whole" };
    const call = kept();
    const { delays } = await run(call);
    expect(delays).toEqual(["runner.answer_broken"]);
    expect(new Set(runner.offers.map(({ headers }) => headers["idempotency-key"]))).toEqual(
      new Set([call.id]),
    );
    expect(await read(call)).toMatchObject({ kind: "answer", body: Buffer.from("whole") });
  });

  test("is sent again too if the answer is not complete in time", async () => {
    runner.answer = () =>
      runner.offers.length === 1
        ? { status: 200, body: "who", after: "silence" }
        : { status: 200, body: "whole" };
    const call = kept();
    const { delays } = await run(call);
    expect(delays).toEqual(["runner.answer_broken"]);
    expect(await read(call)).toMatchObject({ kind: "answer", body: Buffer.from("whole") });
  });

  test("is still successful after its last attempt, and its result is gone", async () => {
    runner.answer = () => ({ status: 200, body: "who", after: "cut" });
    const call = kept();
    const { count } = await run(call);
    expect([runner.offers.length, count("call.injected"), count("call.failed")]).toEqual([3, 1, 0]);
    expect(await read(call)).toEqual({ kind: "gone" });
  });

  test("is successful at once if it keeps no result", async () => {
    runner.answer = () => ({ status: 200, body: "who", after: "cut" });
    const call = aCall();
    const { count } = await run(call);
    expect([runner.offers.length, count("call.injected")]).toEqual([1, 1]);
  });
});
