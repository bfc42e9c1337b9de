import { expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { registerPressure } from "../../../../shared/gateway/backpressure.ts";
import { createMetrics } from "../../../../shared/metrics/metrics.ts";
import { useOwnRedis } from "../../../fixtures/redis.ts";
import type { Fault } from "../../../fixtures/redis-proxy.ts";
import { useRedisProxy } from "../../../fixtures/redis-proxy.ts";
import { type TestWebhooks, type TestWebhooksOptions, useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";
import { endpoints, isAdd, strike } from "./faults.ts";

const redis = useOwnRedis();
const proxy = useRedisProxy(redis);
const webhooks = useWebhooks({ redis });

const startBehindProxy = (options: Partial<TestWebhooksOptions> = {}) =>
  webhooks.start({ endpoints, redisUrl: proxy.url, ...options });
const post = ({ address }: TestWebhooks, path = "/random", headers = {}) =>
  send(address, { path, headers, body: "x" });
const readyz = ({ address }: TestWebhooks) => send(address, { method: "GET", path: "/readyz" });

test.each([
  ["whose reply is lost", "lose-reply"],
  ["that never reaches Redis", "lose-command"],
  ["whose connection falls silent", "hang"],
] as const)(
  "an add %s is repeated under the same id before the 202, and is one call",
  async (_what, kind) => {
    const gateway = await startBehindProxy({ enqueueTimeoutMs: 8000 });
    const struck = strike(proxy, isAdd, { kind });
    const answer = await post(gateway);
    expect(answer.status).toBe(202);
    expect(struck()).toBe(1);
    expect((await webhooks.waiting()).map((call) => call.id)).toEqual([answer.json()["call_id"]]);
  },
);

// Redis 7.0 has no WAITAOF; the proxy answers it as 7.2 does, and forbids CONFIG as an ACL would.
const FORBIDDEN: Fault = {
  kind: "rewrite",
  words: ["EVAL", "return redis.error_reply('NOPERM no permission to run config|get')", "0"],
};
const isWord = (word: RegExp, words: readonly string[]) => word.test(words[0] ?? "");

/** From now on CONFIG is forbidden, and WAITAOF says of how many local disks it knows that they have the writes. */
function answerWaitAof(local: () => number, seen: string[][] = []): void {
  proxy.onCommand = (words) => {
    seen.push([...words]);
    if (isWord(/^config$/i, words)) return FORBIDDEN;
    if (!isWord(/^waitaof$/i, words)) return undefined;
    return { kind: "rewrite", words: ["EVAL", `return {${local()}, 0}`, "0"] };
  };
}

function kindOf(words: readonly string[]): "waitaof" | "add" | "other" {
  if (isWord(/^waitaof$/i, words)) return "waitaof";
  return isAdd(words) ? "add" : "other";
}

test("where CONFIG is forbidden, WAITAOF follows each add on its connection before the 202", async () => {
  const seen: string[][] = [];
  answerWaitAof(() => 1, seen);
  const gateway = await startBehindProxy();
  expect((await readyz(gateway)).json()).toMatchObject({ redis: "waitaof" });
  seen.length = 0;
  expect((await post(gateway, "/evidence", { "X-Id": "1" })).status).toBe(202);
  const kinds = seen.map(kindOf).filter((kind) => kind !== "other");
  expect(kinds.join(" ")).toMatch(/^(add )+waitaof$/);
});

test("a write that WAITAOF does not confirm is answered with 503 and not with 202", async () => {
  let local = 1;
  answerWaitAof(() => local);
  const gateway = await startBehindProxy({ enqueueTimeoutMs: 400 });
  local = 0;
  expect((await post(gateway)).json()).toMatchObject({ status: 503, code: "queue.outcome_unknown" });
});

test("a gateway that may use neither CONFIG nor WAITAOF does not start", async () => {
  proxy.onCommand = (words) => (isWord(/^config$/i, words) ? FORBIDDEN : undefined);
  const { gateway } = await startBehindProxy({ early: true });
  await expect(gateway.firstCheck).rejects.toThrow(/WAITAOF/);
});

/** While Redis begins a new append-only file, it does not end on SIGTERM. */
async function isAofWhole(): Promise<boolean> {
  const info = await redis.client.info("persistence");
  return info.includes("aof_rewrite_in_progress:0") && info.includes("aof_rewrite_scheduled:0");
}

const WEAKER = [
  ["without appendonly", "appendonly", "no", "yes", /appendonly yes/],
  ["with appendfsync everysec", "appendfsync", "everysec", "always", /appendfsync always/],
  [
    "with no-appendfsync-on-rewrite",
    "no-appendfsync-on-rewrite",
    "yes",
    "no",
    /CONFIG SET no-appendfsync-on-rewrite no/,
  ],
  ["that evicts keys", "maxmemory-policy", "allkeys-lru", "noeviction", /noeviction/],
] as const;

test.each(WEAKER)(
  "a gateway does not start on a Redis %s, and says what to do",
  async (_, name, weak, strong, remedy) => {
    await redis.client.config("SET", name, weak);
    try {
      const gateway = await webhooks.start({ endpoints, early: true });
      await expect(gateway.gateway.firstCheck).rejects.toMatchObject({ code: "start.redis_not_durable" });
      await expect(gateway.gateway.firstCheck).rejects.toThrow(remedy);
      expect((await post(gateway)).json()).toMatchObject({ status: 503, code: "queue.not_durable" });
    } finally {
      await redis.client.config("SET", name, strong);
      await eventually("the append-only file is whole", isAofWhole);
    }
  },
);

test.each(WEAKER)(
  "a gateway closes when its Redis becomes one %s, and opens when that is put right; the log says both",
  async (_, name, weak, strong, remedy) => {
    const gateway = await webhooks.start({ endpoints });
    const logged = () => gateway.log.events.filter(({ event }) => /^redis\.(refused|ready)$/.test(event));
    expect((await post(gateway)).status).toBe(202);
    await redis.client.config("SET", name, weak);
    try {
      const refusal = await eventually("it is closed", async () => {
        const answer = await post(gateway);
        return answer.status === 202 ? undefined : answer;
      });
      expect(refusal.json()).toMatchObject({ status: 503, code: "queue.not_durable" });
      expect((await readyz(gateway)).status).toBe(503);
    } finally {
      await redis.client.config("SET", name, strong);
    }
    await eventually("it is open", async () => (await post(gateway)).status === 202);
    await eventually("the append-only file is whole", isAofWhole);
    expect(logged().map(({ event }) => event)).toEqual(["redis.ready", "redis.refused", "redis.ready"]);
    expect(logged()[1]?.fields["reason"]).toMatch(remedy);
  },
);

test("where an ACL hides CONFIG, a Redis that evicts keys is refused all the same, by what INFO says", async () => {
  await redis.client.call("ACL", "SETUSER", "app", "on", "nopass", "~*", "&*", "+@all", "-config");
  await redis.client.config("SET", "maxmemory-policy", "allkeys-lru");
  proxy.onCommand = (words) =>
    isWord(/^waitaof$/i, words) ? { kind: "rewrite", words: ["EVAL", "return {1, 0}", "0"] } : undefined;
  try {
    const redisUrl = proxy.url.replace("redis://", "redis://app:any@");
    const gateway = await webhooks.start({ endpoints, redisUrl, early: true });
    await expect(gateway.gateway.firstCheck).rejects.toThrow(/maxmemory-policy is allkeys-lru/);
    expect((await post(gateway)).json()).toMatchObject({ status: 503, code: "queue.not_durable" });
    await redis.client.config("SET", "maxmemory-policy", "noeviction");
    await eventually("calls are taken", async () => (await post(gateway)).status === 202);
    expect((await readyz(gateway)).json()).toMatchObject({ redis: "waitaof" });
  } finally {
    await redis.client.config("SET", "maxmemory-policy", "noeviction");
    await redis.client.call("ACL", "DELUSER", "app");
  }
});

test("with durability relaxed a webhook is accepted on a weaker Redis, and /readyz says that it is relaxed", async () => {
  await redis.client.config("SET", "appendfsync", "everysec");
  try {
    const gateway = await webhooks.start({ endpoints, durability: "relaxed" });
    expect((await post(gateway)).status).toBe(202);
    expect((await readyz(gateway)).json()).toMatchObject({ durability: "relaxed", redis: "none" });
  } finally {
    await redis.client.config("SET", "appendfsync", "always");
  }
});

test("a gateway whose Redis has no maxmemory warns of it once, and its probe and its metrics say so until it has one", async () => {
  const { gateway, log, address } = await webhooks.start({ endpoints });
  const warned = () => log.events.filter(({ event }) => event === "redis.unbounded").length;
  const metrics = createMetrics();
  registerPressure(metrics, "webhook", gateway.pressure);
  const maxMemory = async () => [
    (await send(address, { method: "GET", path: "/readyz" })).json()["maxmemory_bytes"],
    /^postern_redis_maxmemory_bytes (\d+)$/m.exec(await metrics.text())?.[1],
  ];
  await eventually("the metric is there", async () => (await maxMemory())[1] === "0");
  expect([warned(), await maxMemory()]).toEqual([1, [0, "0"]]);
  try {
    await redis.client.config("SET", "maxmemory", "100mb");
    await eventually("maxmemory is seen", async () => (await maxMemory()).join() === "104857600,104857600");
    expect(warned()).toBe(1);
  } finally {
    await redis.client.config("SET", "maxmemory", "0");
  }
  await eventually("its end is reported again", () => warned() === 2);
});
