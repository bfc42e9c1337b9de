import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { connectForRequests } from "../../../shared/redis/connect.ts";
import { DurableRedis } from "../../../shared/redis/durable.ts";
import { whenReady } from "../../../shared/redis/ready.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { recordingLog } from "../../support/recording-log.ts";

const shared = useRedis();
const ends = useEnds();

/** Blocks this process, including its event loop, for this time. */
const standStill = (ms: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

async function open() {
  const log = recordingLog();
  const redis = connectForRequests({ url: new Secret(shared.url) }, log);
  ends.defer(() => redis.disconnect());
  await whenReady(redis, 5000);
  const durable = new DurableRedis({ redis, mode: "strict", log, checkEveryMs: "on demand" });
  ends.defer(() => durable.stop());
  return { log, redis, durable };
}

test("a process that is suspended for longer than Redis may be silent does not consider Redis dead", async () => {
  const { log, redis, durable } = await open();
  const { info } = redis;
  let requests = 0;
  redis.info = (async () => {
    const reply = info.call(redis);
    await nextTurn(); // so that the command is sent
    requests += 1;
    standStill(2000);
    return reply;
  }) as typeof info;
  await durable.checkNow();
  expect(requests).toBe(1);
  expect(log.events).toEqual([]);
});

test("a check in flight when the connection is closed on purpose reports nothing", async () => {
  const { log, redis, durable } = await open();
  const { info } = redis;
  redis.info = (async () => {
    durable.stop();
    redis.disconnect();
    return await info.call(redis);
  }) as typeof info;
  await durable.checkNow();
  expect(log.events).toEqual([]);
});
