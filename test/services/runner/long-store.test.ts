import { expect, test } from "vitest";
import { createCallStore } from "../../../services/runner/call-store.ts";
import { createLongStore } from "../../../services/runner/long-store.ts";
import { longCallAnswer } from "../../../services/runner/remembered-answer.ts";
import { sha256Hex } from "../../../shared/platform/crypto/compare.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { DurableRedis } from "../../../shared/redis/durable.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { runnerKeys, useRedis } from "../../fixtures/redis.ts";

const redis = useRedis();
const ends = useEnds();
const answers = { answerMs: 60_000, answersBytesMax: 0, toKeep: () => undefined };

test("one of two runners that saw the same call due takes it", async () => {
  const durable = new DurableRedis({ redis: redis.client, mode: "strict", log: silentLogger });
  ends.defer(() => durable.stop());
  await durable.firstCheck;
  const options = { durable, keys: runnerKeys, leaseMs: 60_000, memoryMs: 60_000, answers };
  const [one, other] = [
    createLongStore({ ...options, owner: "one" }),
    createLongStore({ ...options, owner: "other" }),
  ];
  const body = Buffer.from([0, 255, 10, 13, 0xc3, 0x28]);
  const request = {
    callId: "k",
    jobId: 1,
    body,
    contentType: undefined,
    metadata: {},
    traceparent: undefined,
  };
  const subject = { callId: "k", jobId: 1, bytes: body.length, sha256: sha256Hex(body) };
  expect(await createCallStore({ ...options, owner: "one" }).begin(subject)).toEqual({ kind: "new" });
  expect(await one.store(request)).toBe(true);
  const due = { ids: ["k"], nextInMs: undefined };
  expect([await one.due(10), await other.due(10)]).toEqual([due, due]);
  expect(await one.claim("k")).toMatchObject({ request, sha256: subject.sha256, runs: 1 });
  expect(await other.claim("k")).toBeUndefined();
  expect((await other.due(10)).ids).toEqual([]);
});

test.each([
  ["a state that no runner writes", (key: string) => redis.client.hset(key, { st: "LATER", input: "" })],
  ["a key of another type", (key: string) => redis.client.set(key, "text")],
])(
  "%s is neither begun, ended nor run again, stays unchanged, and delays no other call",
  async (_, write) => {
    const durable = new DurableRedis({ redis: redis.client, mode: "strict", log: silentLogger });
    ends.defer(() => durable.stop());
    await durable.firstCheck;
    const options = { durable, keys: runnerKeys, leaseMs: 60_000, memoryMs: 60_000, owner: "one", answers };
    const [calls, longStore] = [createCallStore(options), createLongStore(options)];
    const key = runnerKeys.call("garbage");
    await redis.client.del(key);
    await write(key);
    await redis.client.zadd(runnerKeys.due, 1, "garbage");
    const before = await redis.client.dump(key);

    const subject = { callId: "garbage", jobId: 1, bytes: 0, sha256: sha256Hex(Buffer.alloc(0)) };
    const refused = { code: "record.unreadable" };
    await expect(calls.begin(subject)).rejects.toMatchObject(refused);
    await expect(calls.finish(subject, longCallAnswer("garbage"))).rejects.toMatchObject(refused);
    await expect(longStore.runAgain("garbage")).rejects.toMatchObject(refused);
    expect((await longStore.due(10)).ids).toEqual(["garbage"]);
    await expect(longStore.claim("garbage")).rejects.toMatchObject(refused);
    expect((await longStore.due(10)).ids).toEqual([]);
    expect(await redis.client.dump(key)).toEqual(before);
    expect(await redis.client.zscore(runnerKeys.due, "garbage")).not.toBeNull();
  },
);
