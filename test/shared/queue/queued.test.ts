import { beforeEach, expect, test } from "vitest";
import { createEnqueue } from "../../../services/webhooks-gateway/enqueue.ts";
import { Secret } from "../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../shared/platform/log/logger.ts";
import { createQueuedCalls } from "../../../shared/queue/queued.ts";
import { connectForWork } from "../../../shared/redis/connect.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { aCall } from "../../fixtures/producer.ts";
import { useRedis } from "../../fixtures/redis.ts";
import { useRedisProxy } from "../../fixtures/redis-proxy.ts";

const redis = useRedis();
const proxy = useRedisProxy(redis);
const ends = useEnds();

beforeEach(() => redis.client.flushdb());

/** Reads the queued calls through the proxy, and collects how many keys each script was given. */
function openQueued({ onScript = () => {} }: { onScript?: () => void } = {}) {
  const client = connectForWork({ url: new Secret(proxy.url) }, silentLogger);
  ends.defer(() => client.disconnect());
  const scripts: number[] = [];
  proxy.onCommand = ([name, , keys]) => {
    if (name?.toLowerCase() !== "evalsha") return undefined;
    scripts.push(Number(keys));
    onScript();
    return undefined;
  };
  return { queued: createQueuedCalls(partitionOf(client)), scripts };
}

test("no script reads more than 1 MiB of bodies, and every call is read", async () => {
  const enqueue = createEnqueue(redis.partition);
  const calls = Array.from({ length: 6 }, () => aCall({ body: Buffer.alloc(500_000) }));
  for (const call of calls) await enqueue(call);
  const { queued, scripts } = openQueued();
  const found: [string, string | undefined][] = [];
  for await (const { id, head } of queued.matching({}, () => {})) found.push([id, head.path]);
  expect(found.sort()).toEqual(calls.map(({ id }) => [id, "/a"]).sort());
  // A call has 667 kB of base64, so that two calls exceed 1 MiB and each script reads one call. A script gets two keys per
  // call that is still to be read.
  expect(scripts.filter((keys) => keys > 0)).toEqual([12, 10, 8, 6, 4, 2]);
});

test("an aborted search reads no further queue", async () => {
  const enqueue = createEnqueue(redis.partition);
  for (let n = 0; n < 5; n++) await enqueue(aCall({ job_id: n }));
  const given = new AbortController();
  const { queued, scripts } = openQueued({ onScript: () => given.abort() });
  for await (const call of queued.matching({}, () => {}, given.signal)) expect(call).toBeUndefined();
  expect(scripts).toHaveLength(1);
});
