import {
  type JobJson,
  type MinimalJob,
  type QueueBaseOptions,
  QueueKeys,
  RedisConnection,
  RedisQueueBackend,
} from "bullmq";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { openBackends } from "../../../shared/queue/backend.ts";
import { JOB_NAME, JOB_OPTIONS } from "../../../shared/queue/protocol.ts";
import { partitionOf } from "../../../shared/redis/partition.ts";
import { useRedis } from "../../fixtures/redis.ts";

/*
 * Our Lua around a script of BullMQ's must change nothing of what that script does. An update of BullMQ that changes how its
 * scripts name or number what they are given shows here.
 */
const QUEUE = "webhook/7/1";
const NOW = 1_800_000_000_000;
const WORK = {
  name: "a worker",
  lockDuration: 10_000,
  stalledInterval: 60_000,
  maxStalledCount: 1_000_000,
  metrics: { maxDataPoints: 60 },
};
const TOKEN = "a token";
const ID = "c_1";
const REASON = "runner.failed: it did";

const redis = useRedis();
beforeEach(async () => {
  await redis.client.flushdb();
  vi.useFakeTimers({ toFake: ["Date"], now: NOW });
});
afterEach(() => {
  vi.useRealTimers();
});

/** BullMQ without anything of ours. */
function plain(prefix: string): RedisQueueBackend {
  const names = new QueueKeys(prefix);
  const skips = { skipVersionCheck: true, skipWaitingForReady: true };
  const connection = new RedisConnection(redis.client, { shared: true, blocking: false, ...skips });
  const options = { prefix, ...WORK, connection: redis.client } as QueueBaseOptions;
  const toKey = (type: string) => names.toKey(QUEUE, type);
  return new RedisQueueBackend(connection, QUEUE, names.getKeys(QUEUE), toKey, options, undefined, false);
}

/** BullMQ's code for a call that is not in hand. */
const refused = (error: Error & { code?: number }) => expect(error.code).toBeLessThan(0);

type Step = (backend: RedisQueueBackend, prefix: string) => Promise<unknown>;

const minimal = (id = ID) => ({ id, opts: { attempts: JOB_OPTIONS.attempts } }) as MinimalJob;
const add =
  (id = ID): Step =>
  (backend) => {
    const job = { id, name: JOB_NAME, data: "{}", opts: { ...JOB_OPTIONS, jobId: id }, timestamp: NOW };
    return backend.addJob(job as JobJson, id);
  };
const take: Step = (backend) => backend.moveToActive(TOKEN, WORK.name);
const finish =
  (fetches: boolean): Step =>
  (backend) =>
    backend.moveToCompleted({ id: ID, opts: {} } as MinimalJob, "null", true, TOKEN, fetches);
const fail: Step = (backend) => backend.moveToFailed(minimal(), REASON, false, TOKEN, false);
const retryLater: Step = (backend) =>
  backend.moveToDelayed(ID, NOW, 1000, TOKEN, { fieldsToUpdate: { failedReason: REASON } });
const putOff: Step = (backend) => backend.moveToDelayed(ID, NOW, 1000, TOKEN, { skipAttempt: true });
const back: Step = (backend) => backend.moveJobFromActiveToWait(ID, TOKEN);
const replay: Step = (backend) =>
  backend.retryFinishedJob(minimal(), "failed", { resetAttemptsMade: true, resetAttemptsStarted: true });
const later: Step = async () => vi.setSystemTime(NOW + 2000);
const lookForStalled: Step = async (backend, prefix) => {
  await redis.client.del(`${prefix}:${QUEUE}:stalled-check`);
  return backend.moveStalledJobsToWait();
};
const loseLock: Step = (_, prefix) => redis.client.del(`${prefix}:${QUEUE}:${ID}:lock`);

/** All that stands under BullMQ's names, without what differs by the time in Redis. */
async function contents(prefix: string): Promise<Record<string, unknown>> {
  const all = (await redis.client.keys(`${prefix}:${QUEUE}:*`)).sort();
  const read = all.map(async (key) => [key.slice(prefix.length), await contentOf(key)] as const);
  return JSON.parse(JSON.stringify(Object.fromEntries(await Promise.all(read))).replaceAll(prefix, ""));
}

async function contentOf(key: string): Promise<unknown> {
  const { client } = redis;
  switch (await client.type(key)) {
    case "hash":
      return client.hgetall(key);
    case "list":
      return client.lrange(key, 0, -1);
    case "set":
      return (await client.smembers(key)).sort();
    case "zset":
      return client.zrange(key, "0", "-1", "WITHSCORES");
    case "stream":
      return (await client.xrange(key, "-", "+")).map(([, fields]) => fields);
    default:
      return client.get(key);
  }
}

const STEPS: Record<string, readonly Step[]> = {
  add: [add()],
  "add twice": [add(), add()],
  "take from an empty queue": [take],
  take: [add(), add("c_2"), take],
  finish: [add(), add("c_2"), take, finish(false)],
  "finish and take the next": [add(), add("c_2"), take, finish(true)],
  "finish the last and look for the next": [add(), take, finish(true)],
  "finish what is not in hand": [add(), add("c_2"), finish(true)],
  fail: [add(), take, fail],
  "retry later": [add(), take, retryLater],
  "put off": [add(), take, putOff],
  "take what is due": [add(), take, retryLater, later, take],
  "give back": [add(), add("c_2"), take, back],
  "replay a failed one": [add(), take, fail, replay],
  "take back from a dead worker": [add(), take, loseLock, lookForStalled, lookForStalled],
};

test.each(Object.entries(STEPS))("to %s changes BullMQ's keys as BullMQ alone does", async (_, steps) => {
  const run = async (prefix: string, backend: RedisQueueBackend) => {
    vi.setSystemTime(NOW);
    await redis.client.hset(`${prefix}:${QUEUE}:meta`, { "opts.maxLenEvents": "100" });
    for (const step of steps) await step(backend, prefix).catch(refused);
    return contents(prefix);
  };
  const ours = await run("{ours}", openBackends(partitionOf(redis.client, "{ours}"), WORK)(QUEUE));
  const bullmqs = await run("{bullmq}", plain("{bullmq}"));
  expect(Object.keys(bullmqs).length).toBeGreaterThan(0);
  expect(ours).toEqual(bullmqs);
});
