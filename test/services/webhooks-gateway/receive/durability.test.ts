import { expect, test } from "vitest";
import { startRedis } from "../../../../shared/dev/redis.ts";
import { eventually } from "../../../../shared/dev/wait.ts";
import { registerPressure } from "../../../../shared/ingress/backpressure.ts";
import { Secret } from "../../../../shared/platform/crypto/secret.ts";
import { silentLogger } from "../../../../shared/platform/log/logger.ts";
import { createMetrics } from "../../../../shared/platform/metrics/metrics.ts";
import { connectForWork, type Redis } from "../../../../shared/redis/connect.ts";
import { useOwnRedis } from "../../../fixtures/redis.ts";
import { useRedisProxy } from "../../../fixtures/redis-proxy.ts";
import { type TestWebhooks, type TestWebhooksOptions, useWebhooks } from "../../../fixtures/webhooks.ts";
import { send } from "../../../support/http.ts";
import { onlyInLongRun, sample } from "../../../support/long-run.ts";
import { needs, pathOf } from "../../../support/needs.ts";
import { tempDir } from "../../../support/temp-dir.ts";
import { valkeyEnv } from "../../../support/valkey.ts";
import { applyFault, endpoints, isAdd } from "./faults.ts";

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
  ["whose connection stops responding", "hang"],
] as const)(
  "an add %s is repeated under the same id before the 202, and there is one call",
  async (_what, kind) => {
    const gateway = await startBehindProxy({ enqueueTimeoutMs: 8000 });
    const struck = applyFault(proxy, isAdd, { kind });
    const answer = await post(gateway);
    expect(answer.status).toBe(202);
    expect(struck()).toBe(1);
    expect((await webhooks.waiting()).map((call) => call.id)).toEqual([answer.json()["call_id"]]);
  },
);

/** Returns whether Redis has finished rewriting its append-only file. Until then, SIGTERM does not end it. */
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
  "a gateway does not start on a Redis %s, and reports the remedy",
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

test.each(sample(WEAKER))(
  "a gateway closes when its Redis becomes one %s, and opens once that is fixed, and the log has both events",
  async (_, name, weak, strong, remedy) => {
    const gateway = await webhooks.start({ endpoints });
    const logged = () => gateway.log.events.filter(({ event }) => /^redis\.(unusable|ready)$/.test(event));
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
    expect(logged().map(({ event }) => event)).toEqual(["redis.ready", "redis.unusable", "redis.ready"]);
    expect(logged()[1]?.fields["reason"]).toMatch(remedy);
  },
);

/** Gives the user all rights except CONFIG, as most managed services do. */
async function hideConfig(client: Redis): Promise<void> {
  await client.call("ACL", "SETUSER", "app", "on", "nopass", "~*", "&*", "+@all", "-config");
}
const asApp = (url: string) => url.replace("redis://", "redis://app:any@");

test('if Redis hides its settings, a gateway starts only if an operator declares the service durable, and then reports "managed" everywhere', async () => {
  await hideConfig(redis.client);
  const redisUrl = asApp(redis.url);
  const strict = await webhooks.start({ endpoints, redisUrl, early: true });
  await expect(strict.gateway.firstCheck).rejects.toThrow(/allow CONFIG GET.*durability = "managed"/);
  expect((await post(strict)).json()).toMatchObject({ status: 503, code: "queue.not_durable" });

  const managed = await webhooks.start({ endpoints, redisUrl, durability: "managed" });
  expect((await post(managed)).status).toBe(202);
  const proof = "managed";
  expect((await readyz(managed)).json()).toMatchObject({ durability: "managed", redis: proof });
  expect(managed.log.events.find(({ event }) => event === "redis.ready")?.fields).toMatchObject({ proof });
});

const SHOWN = [
  [
    "keeps no append-only file",
    "strict",
    "appendonly",
    "no",
    "yes",
    /in the settings of the Redis service; a service without that cannot be used/,
  ],
  [
    "evicts keys",
    "managed",
    "maxmemory-policy",
    "allkeys-lru",
    "noeviction",
    /maxmemory-policy is allkeys-lru/,
  ],
] as const;

test.each(sample(SHOWN))(
  "if Redis hides its settings but shows that it %s, it is refused with durability %s, and the error does not suggest CONFIG SET",
  async (_, durability, name, weak, strong, reason) => {
    await hideConfig(redis.client);
    await redis.client.config("SET", name, weak);
    try {
      const gateway = await webhooks.start({
        ...{ endpoints, redisUrl: asApp(redis.url), durability },
        early: true,
      });
      const refusal = await gateway.gateway.firstCheck.catch((error: Error) => error.message);
      expect(refusal).toMatch(reason);
      expect(refusal).not.toContain("CONFIG SET");
      await redis.client.config("SET", name, strong);
      if (durability === "managed")
        await eventually("calls are taken", async () => (await post(gateway)).status === 202);
    } finally {
      await redis.client.config("SET", name, strong);
      await eventually("the append-only file is whole", isAofWhole);
    }
  },
);

test("a managed Redis that hides its settings need not use an append-only file", async () => {
  await hideConfig(redis.client);
  await redis.client.config("SET", "appendonly", "no");
  try {
    const gateway = await webhooks.start({
      ...{ endpoints, redisUrl: asApp(redis.url), durability: "managed" },
    });
    expect((await post(gateway)).status).toBe(202);
  } finally {
    await redis.client.config("SET", "appendonly", "yes");
    await eventually("the append-only file is whole", isAofWhole);
  }
});

test("settings that Redis shows are checked even if an operator declares the service durable", async () => {
  await redis.client.config("SET", "appendfsync", "everysec");
  try {
    const gateway = await webhooks.start({ endpoints, durability: "managed", early: true });
    await expect(gateway.gateway.firstCheck).rejects.toThrow(/appendfsync is everysec/);
  } finally {
    await redis.client.config("SET", "appendfsync", "always");
  }
});

test.each([
  ["the URL leads to a replica", "strict"],
  ["the URL leads to a replica, and durability is relaxed", "relaxed"],
] as const)(
  "a gateway does not start if %s, and the error names only remedies that work",
  async (_, durability) => {
    await redis.client.call("REPLICAOF", "127.0.0.1", "1");
    try {
      const gateway = await webhooks.start({ endpoints, durability, early: true });
      const refusal = await gateway.gateway.firstCheck.catch((error: Error) => error.message);
      expect(refusal).toMatch(/it is a replica.*set \[redis\] url to the primary\.$/);
    } finally {
      await redis.client.call("REPLICAOF", "NO", "ONE");
    }
  },
);

test("with durability relaxed a webhook is accepted on a less durable Redis, and /readyz reports relaxed", async () => {
  await redis.client.config("SET", "appendfsync", "everysec");
  try {
    const gateway = await webhooks.start({ endpoints, durability: "relaxed" });
    expect((await post(gateway)).status).toBe(202);
    expect((await readyz(gateway)).json()).toMatchObject({ durability: "relaxed", redis: "none" });
  } finally {
    await redis.client.config("SET", "appendfsync", "always");
  }
});

onlyInLongRun(() => {
  test(
    "Valkey with appendfsync everysec is refused, because it answers WAITAOF before the write is on disk, and with always it is accepted",
    needs("valkey"),
    async () => {
      const server = await startRedis({
        env: valkeyEnv(pathOf("valkey")),
        dir: tempDir(),
        args: ["--appendfsync", "everysec"],
      });
      const client = connectForWork({ url: new Secret(server.url) }, silentLogger);
      try {
        expect(await client.info("server")).toContain("server_name:valkey");
        expect(await client.call("WAITAOF", 1, 0, 1000)).toEqual([1, 0]);
        const gateway = await webhooks.start({ endpoints, redisUrl: server.url, early: true });
        await expect(gateway.gateway.firstCheck).rejects.toThrow(/appendfsync is everysec/);
        expect((await post(gateway)).json()).toMatchObject({ status: 503, code: "queue.not_durable" });
        await client.config("SET", "appendfsync", "always");
        await eventually("calls are taken", async () => (await post(gateway)).status === 202);
        await hideConfig(client);
        const hidden = await webhooks.start({ endpoints, redisUrl: asApp(server.url), early: true });
        await expect(hidden.gateway.firstCheck).rejects.toThrow(/durability = "managed"/);
      } finally {
        client.disconnect();
        await server.stop();
      }
    },
  );

  test("a gateway whose Redis has no maxmemory warns once, and its probe and metrics show this until a maxmemory is set", async () => {
    const { gateway, log, address } = await webhooks.start({ endpoints });
    const warned = () => log.events.filter(({ event }) => event === "redis.unbounded").length;
    const metrics = createMetrics();
    registerPressure(metrics, "webhook", gateway.pressures);
    const maxMemory = async () => [
      (await send(address, { method: "GET", path: "/readyz" })).json()["maxmemory_bytes"],
      /^postern_redis_maxmemory_bytes\{partition="0"\} (\d+)$/m.exec(await metrics.text())?.[1],
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
});
