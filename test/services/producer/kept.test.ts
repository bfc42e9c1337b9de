import { beforeAll, expect, test } from "vitest";
import type { JobCall } from "../../../shared/call/job-call.ts";
import type { Kept } from "../../../shared/call/kept/kept.ts";
import { createReadKept } from "../../../shared/call-search/life.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { type FakeAnswer, useFakeRunner } from "../../fixtures/fake-runner.ts";
import { aCall, useProducer } from "../../fixtures/producer.ts";
import { keys } from "../../fixtures/redis.ts";

const producers = useProducer();
const runner = useFakeRunner();
let readKept: (id: string) => Promise<Kept | undefined>;
beforeAll(() => {
  readKept = createReadKept(producers.redis.partition);
});

const aKeptCall = (fields: Parameters<typeof aCall>[0] = {}) =>
  aCall({ keep_delivered: { secs: 3600, bytes_max: 100_000 }, ...fields });

async function delivered(answer: FakeAnswer, call: JobCall = aKeptCall()): Promise<Kept | undefined> {
  runner.answer = () => answer;
  const { saw, count } = producers.start({ runnerUrl: runner.url, results: { result_bytes_max: 1000 } });
  await producers.add(call);
  await saw("call.injected");
  expect(count("call.delayed")).toBe(0);
  return readKept(call.id);
}

test("a delivered webhook is kept with the runner's answer, even if that is a 202", async () => {
  const call = aKeptCall();
  const kept = await delivered(
    { status: 202, headers: { "content-type": "text/plain" }, body: "later" },
    call,
  );
  expect(kept?.call).toEqual(call);
  expect(kept?.answer).toMatchObject({
    kind: "answer",
    status: 202,
    contentType: "text/plain",
    by: "answer",
  });
  expect(kept?.answer).toMatchObject({ body: Buffer.from("later") });
  expect(await producers.redis.client.exists(keys.result(call.id))).toBe(0);
});

test("a kept webhook with a too long answer has only the status of the answer", async () => {
  const kept = await delivered({ status: 200, body: "x".repeat(1001) });
  expect(kept?.answer).toMatchObject({ kind: "too_long", status: 200 });
});

test("an answer that breaks off is not kept, and the call is still delivered at once", async () => {
  const kept = await delivered({ status: 200, body: "half", after: "cut" });
  expect(kept?.call).toBeDefined();
  expect(kept?.answer).toBeUndefined();
});

test("a failed call is not kept before it is delivered", async () => {
  runner.answer = () => ({ status: 400 });
  const { saw } = producers.start({ runnerUrl: runner.url });
  const call = aKeptCall();
  await producers.add(call);
  await saw("call.failed");
  await eventually("it has failed", async () => (await producers.queues.countIn("failed")) === 1);
  expect(await readKept(call.id)).toBeUndefined();
});
