import { expect, test } from "vitest";
import { createRouter } from "../../../../../services/runner/runner.ts";
import { eventually } from "../../../../../shared/dev/wait.ts";
import { sha256Hex } from "../../../../../shared/platform/crypto/compare.ts";
import { contentDigest } from "../../../../../shared/platform/crypto/message-signature.ts";
import { runnerKeys } from "../../../../fixtures/redis.ts";
import { type TestRunner, useRunners } from "../../../../fixtures/runners.ts";
import type { Answer } from "../../../../support/http.ts";
import { counting, longJob, stateOf } from "../../gated-jobs.ts";

const runners = useRunners({ fresh: "test" });

/** The answer that a repeat of a call gets if the first answer had this body, and the body is no longer kept. */
const forgotten = (status: number, body: string) => ({
  ...{ status, text: "", replayed: "true", body: "forgotten" },
  digest: contentDigest(sha256Hex(Buffer.from(body))),
});

const fieldsOf = ({ status, text, headers }: Answer) => ({
  ...{ status, text, replayed: headers["idempotent-replayed"], body: headers["idempotent-body"] },
  digest: headers["repr-digest"],
});

const isRemoved = async (key: string) => (await runners.redis.client.exists(runnerKeys.answer(key))) === 0;

test("a repeat of a call whose answer is no longer kept gets the status and the digest, and nothing runs", async () => {
  const { seen, jobs } = counting();
  const runner = await runners.start({ jobs, answer_secs: 0.05 });
  expect((await runner.offer("k")).text).toBe("run 1");
  await eventually("its answer is removed", () => isRemoved("k"));
  const repeat = await runner.offer("k");
  expect(fieldsOf(repeat)).toEqual(forgotten(201, "run 1"));
  expect([repeat.headers["content-length"], repeat.headers["content-type"]]).toEqual(["0", undefined]);
  expect(seen.runs).toBe(1);
});

test("an answer above result_bytes_max reaches its client, and is not kept for a repeat", async () => {
  const { seen, jobs } = counting();
  const runner = await runners.start({ jobs, result_bytes_max: 4 });
  expect((await runner.offer("k")).text).toBe("run 1");
  expect(fieldsOf(await runner.offer("k"))).toEqual(forgotten(201, "run 1"));
  expect(seen.runs).toBe(1);
});

test("an expired answer no longer counts once another call has ended, even if that call's answer is not kept", async () => {
  const jobs = createRouter()
    .job(1, { name: "small", handler: () => ({ body: "x" }) })
    .job(2, { name: "large", handler: () => ({ body: "x".repeat(1000) }) });
  const { offer } = await runners.start({ jobs, result_bytes_max: 100, answer_secs: 0.05 });
  await offer("k");
  await eventually("its answer is removed", () => isRemoved("k"));
  await offer("large", { job: 2 });
  const { client } = runners.redis;
  expect(await client.zcard(runnerKeys.answers)).toBe(0);
  expect(await client.get(runnerKeys.answersBytes)).toBe("0");
});

test("the key of an evicted answer still belongs to one job and one body", async () => {
  const { seen, jobs } = counting();
  const { offer } = await runners.start({ jobs, result_bytes_max: 0 });
  await offer("k", { body: "x" });
  for (const other of [{ body: "y" }, { body: "x", job: 2 }])
    expect((await offer("k", other)).json()["code"]).toBe("runner.key_reused");
  expect(seen.runs).toBe(1);
});

test("the oldest kept answers are evicted for new ones, so that all together take at most answers_bytes_max", async () => {
  const jobs = createRouter().job(1, { name: "large", handler: () => ({ body: "x".repeat(1000) }) });
  const { offer } = await runners.start({ jobs, answers_bytes_max: 5000 });
  const keys = ["a", "b", "c", "d", "e"];
  for (const key of keys) await offer(key);
  const kept = [];
  for (const key of keys) kept.push((await offer(key)).text.length);
  expect(kept).toEqual([0, 0, 1000, 1000, 1000]);
  const entries = await runners.redis.client.zrange(runnerKeys.answers, 0, "-1");
  const sizes = entries.map((entry) => Number(entry.split(" ")[0]));
  const counted = Number(await runners.redis.client.get(runnerKeys.answersBytes));
  expect(counted).toBe(sizes.reduce((sum, size) => sum + size));
  expect(counted).toBeLessThanOrEqual(5000);
});

test("expired answers count until they are evicted, and then free space", async () => {
  const { jobs } = counting();
  const brief = await runners.start({ jobs, answer_secs: 0.05, answers_bytes_max: 700 });
  for (const key of ["a", "b"]) await brief.offer(key);
  await eventually("both have expired", async () => (await isRemoved("a")) && (await isRemoved("b")));
  await brief.offer("c");
  expect(await runners.redis.client.zrange(runnerKeys.answers, 0, "-1")).toEqual([
    expect.stringMatching(/ c$/),
  ]);
});

test("an answer without a body and the 202 of a long call are repeated, although neither is stored", async () => {
  const jobs = longJob(async () => {}).job(2, { name: "silent", handler: () => ({ status: 204 }) });
  const runner: TestRunner = await runners.start({ jobs, answers_bytes_max: 0, result_bytes_max: 0 });
  await runner.offer("silent", { job: 2 });
  const { text: first } = await runner.offer("long");
  await eventually("it is done", async () => (await stateOf(runner, "long")) === "done");
  const plain = { replayed: "true", body: undefined, digest: undefined };
  expect(fieldsOf(await runner.offer("silent", { job: 2 }))).toEqual({ ...plain, status: 204, text: "" });
  expect(fieldsOf(await runner.offer("long"))).toEqual({ ...plain, status: 202, text: first });
});
