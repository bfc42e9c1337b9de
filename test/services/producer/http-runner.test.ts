import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { metadataTest } from "../../../shared/call/job-call.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { contentDigest, verifyMessage } from "../../../shared/platform/crypto/message-signature.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import type { ErrorCode } from "../../../shared/platform/errors/codes.ts";
import { type FakeAnswer, useFakeRunner } from "../../fixtures/fake-runner.ts";
import { aCall, RUNNER_SECRET, type TestProducerOptions, useProducer } from "../../fixtures/producer.ts";
import { sample } from "../../support/long-run.ts";

const runner = useFakeRunner();
const producers = useProducer();
const start = (options: TestProducerOptions = {}) => producers.start({ runnerUrl: runner.url, ...options });

/** Gives the first requests these answers, in this order, and all later requests 200. */
function answerInOrder(...answers: FakeAnswer[]): void {
  const left = [...answers];
  runner.answer = () => left.shift() ?? { status: 200 };
}

test("a runner gets POST /jobs/{job_id} with the bytes, content type, metadata, key and trace context of the call", async () => {
  const body = randomBytes(300);
  const traceparent = `00-${"1".repeat(32)}-${"2".repeat(16)}-01`;
  const call = aCall({ job_id: 42, body, content_type: "application/x-thing", traceparent });
  await producers.add(call);
  await start().saw("call.injected");
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

test("a call with an empty body and no content type is sent with length 0 and no Content-Type", async () => {
  await producers.add(aCall({ body: Buffer.alloc(0) }));
  await start().saw("call.injected");
  expect(runner.offers[0]?.headers["content-length"]).toBe("0");
  expect(runner.offers[0]?.headers).not.toHaveProperty("content-type");
});

test("the signature of a request covers method, path, digest, content type, key and every metadata header", async () => {
  await producers.add(aCall({ content_type: "text/plain" }));
  await start().saw("call.injected");
  const offer = runner.offers[0]!;
  const headers = Object.fromEntries(
    Object.entries(offer.headers).map(([name, value]) => [name, [String(value)]]),
  );
  const mustCover = metadataTest("X-PLATFORM");
  const verify = (path: string, { method = "POST", changed = {} } = {}) =>
    verifyMessage(
      [new Secret(RUNNER_SECRET)],
      { method, path, headers: { ...headers, ...changed } },
      { nowSec: Date.now() / 1000, needs: ["idempotency-key"], mustCover },
    );
  expect(() => verify("/jobs/1")).not.toThrow();
  expect(() => verify("/jobs/2")).toThrow();
  expect(() => verify("/jobs/1", { method: "PUT" })).toThrow();
  for (const name of [
    "content-digest",
    "content-type",
    "idempotency-key",
    "x-webhook-path",
    "x-platform-service-id",
  ]) {
    expect(() => verify("/jobs/1", { changed: { [name]: ["swapped"] } }), name).toThrow();
  }
});

const retried: [string, FakeAnswer, ErrorCode][] = [
  ["500", { status: 500 }, "runner.failed"],
  [
    "a redirect, which is not followed,",
    { status: 302, headers: { Location: "/elsewhere" } },
    "runner.failed",
  ],
  ["a broken connection", "cut", "runner.disconnected"],
  ["silence until the time-out", "silence", "runner.timed_out"],
  ["503", { status: 503 }, "runner.failed"],
  ["408", { status: 408 }, "runner.failed"],
  ["409 without Retry-After", { status: 409 }, "runner.failed"],
  ["425", { status: 425 }, "runner.failed"],
];

test.each(sample(retried, 4))(
  "a call answered with %s is sent again under the same key",
  async (_, answer) => {
    answerInOrder(answer, answer);
    const call = aCall();
    await producers.add(call);
    const { saw, count } = start();
    await saw("call.injected");
    expect(runner.offers.map((offer) => [offer.path, offer.headers["idempotency-key"]])).toEqual(
      Array(3).fill(["/jobs/1", call.id]),
    );
    expect(count("call.delayed")).toBe(2);
  },
);

test.each(sample(retried, 4))(
  "a call answered with %s at each of its attempts fails",
  async (_, answer, code) => {
    runner.answer = () => answer;
    const call = aCall();
    await producers.add(call);
    const { saw } = start(answer === "silence" ? { timeoutMs: 100 } : {});
    await saw("call.failed");
    await eventually(
      "it is among the failed",
      async () => (await producers.queues.jobs("failed")).length === 1,
    );
    expect(runner.offers).toHaveLength(3);
    expect(await producers.records.attempts(call.id)).toMatchObject(Array(3).fill({ code }));
  },
);

test.each(sample([400, 401, 403, 404, 410, 413, 415, 422], 2))(
  "a call answered with %i fails at its first attempt, with the runner's message",
  async (status) => {
    runner.answer = () => ({ status, body: '{"detail": "no thank you"}' });
    const call = aCall();
    await producers.add(call);
    const { producer } = start();
    await eventually(
      "it is among the failed",
      async () => (await producers.queues.jobs("failed")).length === 1,
    );
    expect(runner.offers).toHaveLength(1);
    const [job] = await producers.queues.jobs("failed");
    expect(job?.failedReason).toBe(`runner.refused: ${status} {"detail": "no thank you"}`);
    expect(job?.data).toEqual(call);
    expect(await producers.records.attempts(call.id)).toMatchObject([
      { code: "runner.refused", worker: producer.workerId, status, ms: expect.any(Number) },
    ]);
  },
);

test.each([
  ["429", { status: 429 }],
  ["429 with Retry-After", { status: 429, headers: { "Retry-After": "0" } }],
  ["409 with Retry-After", { status: 409, headers: { "Retry-After": "0" } }],
] as const)(
  "a call answered with %s more often than it has attempts is injected at its first attempt",
  async (_, answer) => {
    answerInOrder(...Array<FakeAnswer>(6).fill(answer));
    await producers.add(aCall());
    const { saw, log } = start();
    await saw("call.injected");
    expect(runner.offers).toHaveLength(7);
    expect(log.events.at(-1)).toMatchObject({ event: "call.injected", fields: { attempt: 1 } });
  },
);

test("a call is not sent again before the runner's Retry-After, in seconds or as a date, with 429, 409 or 503", async () => {
  const statuses = [429, 409, 503];
  runner.answer = ({ path }) => {
    if (runner.offers.filter((offer) => offer.path === path).length > 1) return { status: 200 };
    const retryAfter = path.endsWith("0") ? new Date(Date.now() + 2000).toUTCString() : "1";
    return { status: Number(path.slice("/jobs/".length, -1)), headers: { "Retry-After": retryAfter } };
  };
  const jobs = statuses.flatMap((status) => [10 * status, 10 * status + 1]);
  for (const job_id of jobs) await producers.add(aCall({ job_id }));
  await start().saw("call.injected", jobs.length);
  for (const job of jobs) {
    const [first, second] = runner.offers.filter(({ path }) => path === `/jobs/${job}`);
    expect(second!.at - first!.at, `job ${job}`).toBeGreaterThanOrEqual(900);
  }
});
