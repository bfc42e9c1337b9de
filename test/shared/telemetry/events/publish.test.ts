import { beforeEach, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../../shared/platform/log/logger.ts";
import { systemClock } from "../../../../shared/platform/time/clock.ts";
import { connectForRequests } from "../../../../shared/redis/connect.ts";
import { partitionOf } from "../../../../shared/redis/partition.ts";
import { whenReady } from "../../../../shared/redis/ready.ts";
import type { CallEvent, LeftOut } from "../../../../shared/telemetry/events/event.ts";
import { follow } from "../../../../shared/telemetry/events/follow.ts";
import { publishToFollowers, SENT_PER_SECOND_MAX } from "../../../../shared/telemetry/events/publish.ts";
import { useEnds } from "../../../fixtures/ends.ts";
import { keys, useRedis } from "../../../fixtures/redis.ts";
import { LONG_RUN } from "../../../support/long-run.ts";

const ends = useEnds();
const redis = useRedis();

beforeEach(async () => {
  await redis.client.flushdb();
});

async function connected() {
  const connection = connectForRequests({ url: new Secret(redis.url) }, silentLogger);
  ends.defer(() => connection.disconnect());
  await whenReady(connection, 5000);
  return partitionOf(connection);
}

async function aLog() {
  const partition = await connected();
  const log = publishToFollowers(silentLogger, { partition, service: "producer", clock: systemClock });
  ends.defer(log.stop);
  return log;
}

async function aFollower() {
  const events: CallEvent[] = [];
  const leftOut: LeftOut = {};
  const following = await follow(await connected(), {
    onEvent: (event) => void events.push(event),
    onLeftOut(counts) {
      for (const [outcome, count] of Object.entries(counts))
        leftOut[outcome] = (leftOut[outcome] ?? 0) + count;
    },
    onSender() {},
    onLost() {},
    onReturned() {},
    onUnreadable() {},
  });
  ends.defer(following.stop);
  return { events, leftOut, following };
}

const injected = (callId: string) => ({
  ...{ callId, origin: "webhook", serviceId: 7, jobId: 1, attempt: 1, attemptsBefore: 0 },
  ...{ injectMs: 1, endToEndMs: 2 },
});

const published = async (): Promise<number> => {
  const stats = await redis.client.info("commandstats");
  return Number(/cmdstat_publish:calls=(\d+)/.exec(stats)?.[1] ?? 0);
};

test("events of one turn of the event loop are one message", async () => {
  const log = await aLog();
  const { events, following } = await aFollower();
  await following.noticed;
  const before = await published();
  for (let i = 0; i < 50; i++) log.info("call.injected", injected(`c_${i}`));
  await eventually("all came", () => events.length === 50);
  expect((await published()) - before).toBe(1);
});

test("events above the limit of a second are omitted and counted", async () => {
  const log = await aLog();
  const { events, leftOut, following } = await aFollower();
  await following.noticed;
  const total = (LONG_RUN ? 20 : 2) * SENT_PER_SECOND_MAX.events;
  for (let i = 0; i < total; i++) log.info("call.injected", injected(`c_${i}`));
  await eventually("the rest is counted", () => events.length + (leftOut["injected"] ?? 0) === total);
  expect(events.length).toBeGreaterThan(100);
  expect(events.length).toBeLessThanOrEqual(SENT_PER_SECOND_MAX.events);
});

test("a follower that ends leaves the other followers unaffected", async () => {
  const log = await aLog();
  const first = await aFollower();
  const second = await aFollower();
  await second.following.noticed;
  await second.following.stop();
  expect(await redis.client.exists(keys.followed)).toBe(1);
  log.info("call.injected", injected("c_1"));
  await eventually("the first sees it", () => first.events.length === 1);
});

test("a reason is cut before it is sent", async () => {
  const log = await aLog();
  const { events, following } = await aFollower();
  await following.noticed;
  log.error("call.failed", { ...injected("c_1"), code: "runner.failed", reason: "x".repeat(100_000) });
  await eventually("it came", () => events.length === 1);
  expect(JSON.stringify(events).length).toBeLessThan(1000);
});
