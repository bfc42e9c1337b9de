import { beforeEach, expect, test } from "vitest";
import { useFailedCalls } from "../../../fixtures/failed-calls.ts";
import { jsonLines, usePostern } from "../../../fixtures/postern.ts";
import { asUser, keys, useOwnRedis } from "../../../fixtures/redis.ts";
import { copyId, multiplyFailed } from "../../../support/multiply-failed.ts";
import { runHereWith } from "../run-here.ts";

// Without the append-only file, which would cost seconds for each of these calls.
const redis = useOwnRedis(["--appendonly", "no"]);
const fixture = useFailedCalls({ redis });
const run = runHereWith(usePostern(() => ({ postern: { redis: { url: asUser(redis.url, "operator") } } })));

const LARGE = 20 * 1024 * 1024;
const CALLS = 25;

async function failLarge(bytes = LARGE, calls = CALLS): Promise<string> {
  const [id = ""] = await fixture.fail([{ body: Buffer.alloc(bytes, 0xa5), path: "/large" }]);
  await multiplyFailed(redis.partition, {
    of: { id, queue: "webhook/7/1" },
    copies: calls - 1,
    everyMs: -1,
    atOnce: 1,
  });
  return id;
}

async function sentBytes(): Promise<number> {
  return Number(/^total_net_output_bytes:(\d+)/m.exec(await redis.client.info("stats"))?.[1]);
}

let sentBefore: number;
beforeEach(async () => {
  await failLarge();
  sentBefore = await sentBytes();
});

/**
 * Checks the bytes that Redis has sent since the calls failed. They contain no body if they are fewer than one body
 * has.
 */
const expectNoBody = async () => expect((await sentBytes()) - sentBefore).toBeLessThan(LARGE / 10);

test(`postern failed list lists and counts ${CALLS} calls of 20 MiB by endpoint and code, and reads none of their bodies`, async () => {
  const filter = ["--endpoint", "/large", "--code", "runner.refused"];
  const ran = await run(["failed", "list", ...filter, "--limit", "2", "-o", "json"]);
  expect(ran.stderr).toBe(`${CALLS} failed calls; 2 are listed (--limit 0 lists all)\n`);
  expect(ran.code).toBe(0);
  expect(jsonLines(ran)[1]).toMatchObject({ id: copyId(1), bytes: LARGE, endpoint: "/large" });
  await expectNoBody();
});

test("postern failed list reads no body even if the calls have no stored head", async () => {
  const calls = await redis.client.zrange(keys.inQueue("webhook/7/1", "failed"), "0", "-1");
  for (const id of calls) await redis.client.hdel(keys.inQueue("webhook/7/1", id), "head");
  const ran = await run(["failed", "list", "--endpoint", "/large", "-o", "json"]);
  expect(ran).toMatchObject({ code: 0, stderr: `${CALLS} failed calls\n` });
  expect(jsonLines(ran)[0]).toMatchObject({ bytes: LARGE, endpoint: "/large" });
  await expectNoBody();
});

test(`postern failed replay returns ${CALLS} calls of 20 MiB to the queue, and reads none of their bodies`, async () => {
  const ran = await run(["failed", "replay", "--endpoint", "/large"]);
  expect(ran).toMatchObject({ code: 0, stdout: `replayed ${CALLS} calls\n` });
  expect(await fixture.calls.count({})).toBe(0);
  await expectNoBody();
});

test(`postern failed discard ends ${CALLS} calls of 20 MiB, and reads none of their bodies`, async () => {
  const ran = await run(["failed", "discard", "--all", "--yes", "--reason", "too large"]);
  expect(ran).toMatchObject({ code: 0, stdout: `discarded ${CALLS} calls\n` });
  expect(await redis.client.keys(keys.inQueue("webhook/7/1", "c_*"))).toEqual([]);
  await expectNoBody();
});
