import { randomBytes } from "node:crypto";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { delay } from "../../../../shared/platform/time/clock.ts";
import { useOwnRedis } from "../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../fixtures/redis-proxy.ts";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";
import { LONG_RUN, onlyInLongRun } from "../../../support/long-run.ts";
import { isAdd } from "./faults.ts";

const MIB = 1024 * 1024;
const redis = useOwnRedis();
const proxy = useRedisProxy(redis);
const webhooks = useWebhooks({ redis });

const endpoints = [
  { path: "/large", job_id: 1, auth: "none", body_limit_bytes: 26 * MIB, idempotency_header: "X-Id" },
  { path: "/small", job_id: 2, auth: "none" },
  { path: "/coded", job_id: 3, auth: "none", encoded_bodies: "decode" },
];

type SmallCalls = { end(): Promise<{ statuses: number[]; slowestMs: number }> };

/** Sends small calls, several at a time, until `end` is called. */
function streamOfSmallCalls({ address }: TestWebhooks): SmallCalls {
  const statuses: number[] = [];
  let slowestMs = 0;
  let ended = false;
  const one = async () => {
    while (!ended) {
      const begun = performance.now();
      statuses.push((await send(address, { path: "/small", body: "x" })).status);
      slowestMs = Math.max(slowestMs, performance.now() - begun);
      await delay(10);
    }
  };
  const running = Promise.all(Array.from({ length: 4 }, one));
  return {
    async end() {
      ended = true;
      await running;
      return { statuses, slowestMs };
    },
  };
}

const postLarge = ({ address }: TestWebhooks, id = "1", bytes = 25 * MIB) =>
  send(address, {
    path: "/large",
    headers: { "X-Id": id },
    body: Buffer.alloc(bytes, "x"),
  });

const eventsOf = ({ log }: TestWebhooks) => log.events.map(({ event }) => event);
/** Default deadline of small calls. */
const SMALL_DEADLINE_MS = 5000;
const refused = (statuses: readonly number[]) => statuses.filter((status) => status !== 202);

onlyInLongRun(() => {
  // test/system/flood/large-bodies.long.test.ts sends ten, while no other test runs.
  test("two concurrent bodies of 25 MiB are accepted, and small calls are answered meanwhile", async () => {
    // Longer than the default, because other tests share the CPU cores.
    const gateway = await webhooks.start({ endpoints, enqueueTimeoutMs: 60_000 });
    const small = streamOfSmallCalls(gateway);
    const large = await Promise.all(["1", "2"].map((id) => postLarge(gateway, id)));
    const { statuses, slowestMs } = await small.end();
    expect(refused(statuses)).toEqual([]);
    expect(statuses.length).toBeGreaterThan(10);
    expect(slowestMs).toBeLessThan(SMALL_DEADLINE_MS);
    expect(
      large.map(({ status }) => status),
      gateway.log.text(),
    ).toEqual([202, 202]);
    expect(gateway.gateway.bodyBytes()).toBe(0);
    expect(eventsOf(gateway)).not.toContain("redis.unresponsive");
  });

  test("a large call does not wait for all larger calls that arrived before it", async () => {
    const gateway = await webhooks.start({ endpoints, redisUrl: proxy.url, enqueueTimeoutMs: 12_000 });
    let larger = 0;
    const othersWait = eventually("the others wait", () => gateway.gateway.bodyBytes() === 8 * 8 * MIB);
    proxy.onCommand = (words) => {
      if (!isAdd(words) || !words.some((word) => word.length > MIB)) return undefined;
      larger += 1;
      // The reply to the first call is delayed until all bodies are read, which may take longer beside other tests.
      const from = larger === 1 ? othersWait : Promise.resolve();
      return { kind: "late-reply", until: from.then(() => delay(700)) };
    };
    const before = Promise.all(Array.from({ length: 8 }, (_, i) => postLarge(gateway, `${i}`, 8 * MIB)));
    await eventually("the first of them is at Redis", () => larger > 0);
    await othersWait;
    const middle = await Promise.all(["a", "b", "c"].map((id) => postLarge(gateway, id, 300 * 1024)));
    expect(middle.map(({ status }) => status)).toEqual([202, 202, 202]);
    expect(larger).toBeLessThan(8);
    expect(refused((await before).map(({ status }) => status))).toEqual([]);
  });

  test("no connection to Redis is closed while the bytes of a large call make progress, however slow", async () => {
    const gateway = await webhooks.start({ endpoints, redisUrl: proxy.url, enqueueTimeoutMs: 5000 });
    let begun = 0;
    proxy.pauseMs = (bytes) => {
      if (bytes < MIB) return 0;
      begun ||= performance.now();
      return performance.now() - begun < 4000 ? 8 : 0;
    };
    const small = streamOfSmallCalls(gateway);
    const answer = await postLarge(gateway);
    expect(performance.now() - begun).toBeGreaterThan(3000);
    expect(refused((await small.end()).statuses)).toEqual([]);
    expect(answer.status).toBe(202);
    expect(eventsOf(gateway)).not.toContain("redis.unresponsive");
  });
});

test("while Redis processes a large call, other silent connections are not closed", async () => {
  const gateway = await webhooks.start({ endpoints, redisUrl: proxy.url, enqueueTimeoutMs: 8000 });
  const small = streamOfSmallCalls(gateway);
  let busy: Promise<void> | undefined;
  let isBusy = false;
  proxy.onCommand = (words) => {
    if (busy === undefined && isAdd(words) && words.some((word) => word.length > MIB)) {
      isBusy = true;
      busy = delay(2800).then(() => {
        isBusy = false;
      });
    }
    return busy !== undefined && isBusy ? { kind: "late-reply", until: busy } : undefined;
  };
  const answer = await postLarge(gateway, "1", LONG_RUN ? 12 * MIB : 4 * MIB);
  expect(busy).toBeDefined();
  expect(refused((await small.end()).statuses)).toEqual([]);
  expect(answer.status).toBe(202);
  expect(eventsOf(gateway)).not.toContain("redis.unresponsive");
});

onlyInLongRun(() => {
  test("while Redis processes another gateway's large call, the connection for large calls is not closed although it makes no progress", async () => {
    const gateway = await webhooks.start({ endpoints, redisUrl: proxy.url, enqueueTimeoutMs: 8000 });
    const small = streamOfSmallCalls(gateway);
    const busyMs = 4000;
    let busy: Promise<void> | undefined;
    let isBusy = false;
    proxy.pauseMs = (bytes) => {
      if (bytes < MIB || busy !== undefined) return 0;
      isBusy = true;
      busy = delay(busyMs).then(() => {
        isBusy = false;
      });
      return busyMs;
    };
    proxy.onCommand = () => (busy !== undefined && isBusy ? { kind: "late-reply", until: busy } : undefined);
    const answer = await postLarge(gateway);
    expect(busy).toBeDefined();
    expect(refused((await small.end()).statuses)).toEqual([]);
    expect(answer.status).toBe(202);
    expect(eventsOf(gateway)).not.toContain("redis.unresponsive");
  });

  test("the connection for large calls is not closed if Redis answers other connections and then processes the call for longer than the silence limit", async () => {
    const gateway = await webhooks.start({ endpoints, redisUrl: proxy.url, enqueueTimeoutMs: 12_000 });
    let isThere = false;
    let busy: Promise<void> | undefined;
    let begin = (): void => {};
    const isDone = new Promise<void>((resolve) => {
      begin = () => {
        busy = delay(2500);
        void busy.then(resolve);
      };
    });
    proxy.onCommand = (words) => {
      if (isAdd(words) && words.some((word) => word.length > MIB)) {
        isThere = true;
        return { kind: "late-reply", until: isDone };
      }
      if (busy !== undefined) return { kind: "late-reply", until: isDone };
      if (isThere && words[0]?.toLowerCase() === "ping") setImmediate(begin);
      return undefined;
    };
    const answer = await postLarge(gateway, "1", 12 * MIB);
    expect(busy).toBeDefined();
    expect(answer.status).toBe(202);
    expect(eventsOf(gateway)).not.toContain("redis.unresponsive");
  });

  test("a connection on which a large call makes no progress is closed, and the call is sent over a new one", async () => {
    const gateway = await webhooks.start({ endpoints, redisUrl: proxy.url, enqueueTimeoutMs: 5000 });
    let stuck: number | undefined;
    proxy.pauseMs = (bytes, connection) => {
      if (bytes > MIB) stuck ??= connection;
      return connection === stuck ? Number.POSITIVE_INFINITY : 0;
    };
    const small = streamOfSmallCalls(gateway);
    const answer = await postLarge(gateway);
    expect(refused((await small.end()).statuses)).toEqual([]);
    expect(answer.status).toBe(202);
    expect(eventsOf(gateway).filter((event) => event === "redis.unresponsive")).toHaveLength(1);
    expect((await webhooks.queues.jobs("wait")).filter(({ data }) => data.job_id === 1)).toHaveLength(1);
  });

  test("a large call that Redis never receives completely is answered with 503 queue.unavailable, and counts in the body budget until then", async () => {
    const gateway = await webhooks.start({ endpoints, redisUrl: proxy.url, enqueueTimeoutMs: 6000 });
    proxy.pauseMs = (bytes) => (bytes > MIB ? Number.POSITIVE_INFINITY : 0);
    const posted = postLarge(gateway, "1", 12 * MIB);
    await eventually("the body is taken", () => gateway.gateway.bodyBytes() === 12 * MIB);
    await eventually("the connection is cut", () => eventsOf(gateway).includes("redis.unresponsive"));
    expect(gateway.gateway.bodyBytes()).toBe(12 * MIB);
    expect((await posted).json()).toMatchObject({ status: 503, code: "queue.unavailable" });
    expect(gateway.gateway.bodyBytes()).toBe(0);
    expect(await webhooks.waiting()).toEqual([]);
  });
});

test("an encoded body counts in the budget with its received and its decoded bytes until its call is answered", async () => {
  const gateway = await webhooks.start({ endpoints, redisUrl: proxy.url, enqueueTimeoutMs: 5000 });
  const decoded = randomBytes(300 * 1024);
  const received = gzipSync(decoded);
  let added = (): void => {};
  const until = new Promise<void>((resolve) => {
    added = resolve;
  });
  let isAdding = false;
  proxy.onCommand = (words) => {
    isAdding ||= isAdd(words);
    return isAdd(words) ? { kind: "late-reply", until } : undefined;
  };
  const posted = send(gateway.address, {
    path: "/coded",
    headers: { "Content-Encoding": "gzip" },
    body: received,
  });
  await eventually("its call is at Redis", () => isAdding);
  expect(gateway.gateway.bodyBytes()).toBe(received.length + decoded.length);
  added();
  expect((await posted).status).toBe(202);
  expect(gateway.gateway.bodyBytes()).toBe(0);
});

test("if Redis never replies to a large add, the answer is 503 queue.outcome_unknown, and a repeat is the same call", async () => {
  const gateway = await webhooks.start({ endpoints, redisUrl: proxy.url, enqueueTimeoutMs: 1500 });
  proxy.onCommand = (words) => (isAdd(words) ? { kind: "hang" } : undefined);
  const first = await postLarge(gateway, "1", 300 * 1024);
  expect(first.json()).toMatchObject({ status: 503, code: "queue.outcome_unknown" });
  proxy.onCommand = () => undefined;
  expect((await postLarge(gateway, "1", 300 * 1024)).status).toBe(202);
  expect(await webhooks.waiting()).toHaveLength(1);
});
