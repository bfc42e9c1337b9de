import { beforeEach, expect, test } from "vitest";
import { createEnqueue, type Enqueue } from "../../../services/webhooks-gateway/enqueue.ts";
import type { JobCall } from "../../../shared/call/job-call.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { connectForRequests } from "../../../shared/redis/connect.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { whenReady } from "../../../shared/redis/ready.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { aCall } from "../../fixtures/producer.ts";
import { keys, useRedis } from "../../fixtures/redis.ts";
import { useRedisProxy } from "../../fixtures/redis-proxy.ts";
import { openQueues } from "../../support/queues.ts";

const redis = useRedis();
const proxy = useRedisProxy(redis);
const ends = useEnds();
let enqueue: Enqueue;
/** Number of calls in each script run. */
let batches: number[];

beforeEach(async () => {
  await redis.client.flushdb();
  const client = connectForRequests({ url: new Secret(proxy.url) }, silentLogger);
  client.options.commandTimeout = 60_000; // a test decides when a reply arrives
  ends.defer(() => client.disconnect());
  await whenReady(client, 5000);
  enqueue = createEnqueue(partitionOf(client));
  batches = [];
  proxy.onCommand = (words) => {
    if (/^evalsha$/i.test(words[0] ?? ""))
      batches.push(words.filter((word) => word.startsWith('{"id":')).length);
    return undefined;
  };
});

const waiting = async () =>
  (await openQueues(redis.client).jobs("waiting")).flatMap(({ id }) => id ?? []).toSorted();
const calls = (count: number, prefix = "c", body = Buffer.from("hello")): JobCall[] =>
  Array.from({ length: count }, (_, i) => aCall({ id: `${prefix}_${i}`, body }));
const claimOf = (bodySha256 = "hash", by = "a test") => ({ by, bodySha256, windowMs: 60_000 });
const kindOf = (result: PromiseSettledResult<{ kind: string }>) =>
  result.status === "fulfilled" ? result.value.kind : String(result.reason);

test("calls in the same turn of the event loop are added by one script, and each gets its own answer", async () => {
  await enqueue(aCall({ id: "c_0" }), claimOf());
  await enqueue(aCall({ id: "c_1" }), claimOf("another hash"));
  // This value is not a hash, so the call's record cannot be read.
  await redis.client.set(keys.record("c_2"), "no hash");
  await redis.client.hset(keys.record("c_3"), { st: "LATER" });
  batches = [];
  const answers = await Promise.allSettled(calls(6).map((call) => enqueue(call, claimOf("hash", "another"))));
  expect(answers.map(kindOf)).toEqual([
    "known",
    "conflict",
    expect.stringContaining("WRONGTYPE"),
    expect.stringContaining("cannot be read"),
    "new",
    "new",
  ]);
  expect(batches).toEqual([6]);
  expect(await waiting()).toEqual(["c_0", "c_1", "c_4", "c_5"]);
  expect(await redis.client.hget(keys.record("c_4"), "st")).toBe("QUEUED");
});

test("the record of a delivery stores 128 bits of the body's hash, and an old record with the whole hash is still compared", async () => {
  const [hash, other] = ["a".repeat(64), `${"a".repeat(31)}b${"a".repeat(32)}`];
  await enqueue(aCall({ id: "c_0" }), claimOf(hash, "12345678"));
  expect(await redis.client.hget(keys.record("c_0"), "bh")).toBe(hash.slice(0, 32));
  expect(await redis.client.memory("USAGE", keys.record("c_0"))).toBeLessThan(200);
  await redis.client.hset(keys.record("c_1"), { st: "INJECTED", bh: hash, by: "another" });
  for (const id of ["c_0", "c_1"]) {
    expect((await enqueue(aCall({ id }), claimOf(hash, "87654321"))).kind).toBe("known");
    expect((await enqueue(aCall({ id }), claimOf(other, "87654321"))).kind).toBe("conflict");
  }
});

test("a batch has at most 1 MiB and 24 calls, and four batches are in flight at once", async () => {
  let release = (): void => {};
  const until = new Promise<void>((resolve) => {
    release = resolve;
  });
  const count = proxy.onCommand;
  proxy.onCommand = (words, connection) => {
    count(words, connection);
    return { kind: "late-reply", until };
  };
  // Five of these are 1,000 KiB as stored.
  const large = calls(10, "large", Buffer.alloc(150 * 1024, "x"));
  const added = [...large, ...calls(6 * 24, "small")].map((call) => enqueue(call));
  await expect.poll(() => batches).toEqual([5, 19, 24, 24]);
  release();
  await Promise.all(added);
  expect(await waiting()).toHaveLength(added.length);
});

test("a Redis that has become a replica adds nothing, and the gateway reconnects because the primary may be elsewhere", async () => {
  let newest = 0;
  proxy.onCommand = (_, connection) => {
    newest = connection;
    return undefined;
  };
  await redis.client.call("REPLICAOF", "127.0.0.1", "1");
  try {
    await expect(enqueue(aCall(), claimOf())).rejects.toThrow("READONLY");
    await expect.poll(() => newest).toBeGreaterThan(1);
  } finally {
    await redis.client.call("REPLICAOF", "NO", "ONE");
  }
  await expect.poll(() => enqueue(aCall(), claimOf()).catch(() => undefined)).toEqual({ kind: "new" });
});
