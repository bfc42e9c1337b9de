import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type PrivateRedis, startRedis } from "../../shared/dev/redis.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { startGateway, type TestGateway, type TestGatewayOptions } from "../support/gateway.ts";
import { send } from "../support/http.ts";
import { type Fault, type RedisProxy, startRedisProxy } from "../support/redis-proxy.ts";

const webhooks = {
  endpoints: [
    { path: "/random", job_id: 1, auth: "none" },
    { path: "/evidence", job_id: 1, auth: "none", idempotency_header: "X-Id" },
  ],
};

let redis: PrivateRedis;
let proxy: RedisProxy;
const open: TestGateway[] = [];

beforeAll(async () => {
  redis = await startRedis({ env: process.env });
});
afterAll(() => redis.stop());
beforeEach(async () => {
  proxy = await startRedisProxy(redis.url);
});
afterEach(async () => {
  for (const gateway of open.splice(0)) await gateway.close();
  await proxy.close();
});

async function start(options: Partial<TestGatewayOptions> = {}): Promise<TestGateway> {
  const gateway = await startGateway({ redisUrl: redis.url, directUrl: redis.url, webhooks, ...options });
  open.push(gateway);
  if (!options.early) await gateway.redis.flushdb();
  return gateway;
}
const post = (gateway: TestGateway, path = "/random", headers = {}) =>
  send(gateway.address, { path, headers, body: "x" });
const isAdd = (words: readonly string[]) =>
  /^eval/i.test(words[0] ?? "") && words.some((word) => word.includes("{postern}:webhook:events"));

/** Applies the fault to the first `times` commands that fit. */
function fault(fits: (words: readonly string[]) => boolean, fault: Fault, times = 1): () => number {
  let left = times;
  proxy.onCommand = (words) => {
    if (left === 0 || !fits(words)) return undefined;
    left -= 1;
    return fault;
  };
  return () => times - left;
}

describe("no 2xx before the add has resolved; an unknown outcome is repeated under the same id", () => {
  test.each(["lose-reply", "lose-command", "hang"] as const)("%s once: 202, and one call", async (kind) => {
    const gateway = await start({ redisUrl: proxy.url, enqueueTimeoutMs: 8000 });
    const struck = fault(isAdd, { kind });
    const answer = await post(gateway);
    expect(answer.status).toBe(202);
    expect(struck()).toBe(1);
    expect((await gateway.waiting()).map((call) => call.id)).toEqual([answer.json()["call_id"]]);
  });

  test("the reply never comes: 503 queue.outcome_unknown with Retry-After, though the call may be queued", async () => {
    const gateway = await start({ redisUrl: proxy.url, enqueueTimeoutMs: 600 });
    fault(isAdd, { kind: "lose-reply" }, Number.POSITIVE_INFINITY);
    const answer = await post(gateway);
    expect(answer.status).toBe(503);
    expect(answer.json()).toMatchObject({ code: "queue.outcome_unknown" });
    expect(answer.json()["detail"]).toContain("may run twice");
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
    expect(await gateway.waiting()).toHaveLength(1);
  });

  test("with evidence, sending again after an unknown outcome is the same call", async () => {
    const gateway = await start({ redisUrl: proxy.url, enqueueTimeoutMs: 600 });
    fault(isAdd, { kind: "lose-reply" }, Number.POSITIVE_INFINITY);
    expect((await post(gateway, "/evidence", { "X-Id": "1" })).status).toBe(503);
    proxy.onCommand = () => undefined;
    await eventually(
      "it is accepted",
      async () => (await post(gateway, "/evidence", { "X-Id": "1" })).status === 202,
    );
    expect(await gateway.waiting()).toHaveLength(1);
  });

  test("what Redis refuses outright is known not to be queued: 503 queue.unavailable", async () => {
    const gateway = await start({ redisUrl: proxy.url, enqueueTimeoutMs: 300 });
    fault(
      isAdd,
      { kind: "rewrite", words: ["EVAL", "return redis.error_reply('OOM command not allowed')", "0"] },
      Number.POSITIVE_INFINITY,
    );
    const answer = await post(gateway);
    expect([answer.status, answer.json()["code"]]).toEqual([503, "queue.unavailable"]);
    expect(await gateway.waiting()).toEqual([]);
  });
});

describe("Redis away", () => {
  test("the gateway starts without it: alive, not ready, 503; and takes calls once it is there", async () => {
    const later = await startRedis({ env: process.env });
    await later.kill("SIGKILL");
    const gateway = await start({
      redisUrl: later.url,
      directUrl: redis.url,
      early: true,
      enqueueTimeoutMs: 300,
    });
    expect((await send(gateway.address, { method: "GET", path: "/livez" })).status).toBe(200);
    expect((await send(gateway.address, { method: "GET", path: "/readyz" })).status).toBe(503);
    const answer = await post(gateway);
    expect([answer.status, answer.json()["code"]]).toEqual([503, "service.starting"]);
    await later.restart();
    await eventually("it takes calls", async () => (await post(gateway)).status === 202);
    expect((await send(gateway.address, { method: "GET", path: "/readyz" })).status).toBe(200);
    await later.stop();
  });

  test("it goes and returns: 503 meanwhile, and what had its 202 is there", async () => {
    const mortal = await startRedis({ env: process.env });
    const gateway = await start({ redisUrl: mortal.url, directUrl: mortal.url, enqueueTimeoutMs: 300 });
    const before = await post(gateway);
    await mortal.kill("SIGKILL");
    expect((await post(gateway)).status).toBe(503);
    expect((await send(gateway.address, { method: "GET", path: "/readyz" })).status).toBe(503);
    await mortal.restart();
    await eventually("it takes calls", async () => (await post(gateway)).status === 202);
    expect((await gateway.waiting()).map((call) => call.id)).toContain(before.json()["call_id"]);
    await gateway.close();
    open.splice(0);
    await mortal.stop();
  });
});

describe("a Redis that cannot keep the promise", () => {
  test.each([
    ["appendonly no", ["--appendonly", "no"], /appendonly yes/],
    ["appendfsync everysec", ["--appendfsync", "everysec"], /appendfsync always/],
    ["eviction", ["--maxmemory-policy", "allkeys-lru"], /noeviction/],
  ])("stops the start and says what to do: %s", async (_what, args, remedy) => {
    const weak = await startRedis({ env: process.env, args });
    const gateway = await start({ redisUrl: weak.url, directUrl: redis.url, early: true });
    await expect(gateway.gateway.firstCheck).rejects.toMatchObject({ code: "start.redis_not_durable" });
    await expect(gateway.gateway.firstCheck).rejects.toThrow(remedy);
    expect((await post(gateway)).json()).toMatchObject({ status: 503, code: "queue.not_durable" });
    await weak.stop();
  });

  test("is taken when relaxed is asked for, and /readyz says so", async () => {
    const weak = await startRedis({ env: process.env, args: ["--appendfsync", "everysec"] });
    const gateway = await start({ redisUrl: weak.url, directUrl: weak.url, durability: "relaxed" });
    expect((await post(gateway)).status).toBe(202);
    const ready = await send(gateway.address, { method: "GET", path: "/readyz" });
    expect(ready.json()).toMatchObject({ durability: "relaxed", redis: "none" });
    await gateway.close();
    open.splice(0);
    await weak.stop();
  });

  test("that stops keeping it while the gateway runs turns ingest to 503, and back", async () => {
    const gateway = await start();
    await gateway.redis.config("SET", "appendfsync", "everysec");
    await eventually(
      "ingest is refused",
      async () => (await post(gateway)).json()["code"] === "queue.not_durable",
    );
    expect((await send(gateway.address, { method: "GET", path: "/readyz" })).status).toBe(503);
    await gateway.redis.config("SET", "appendfsync", "always");
    await eventually("ingest is open", async () => (await post(gateway)).status === 202);
  });
});

function kindOf(words: readonly string[]): "waitaof" | "add" | "record" | "other" {
  if (/^waitaof$/i.test(words[0] ?? "")) return "waitaof";
  if (isAdd(words)) return "add";
  return words.some((word) => word.includes("{postern}:call:")) ? "record" : "other";
}

/** Redis 7.0 has no WAITAOF; the proxy answers it as 7.2 does, and forbids CONFIG as an ACL would. */
describe("where CONFIG GET is forbidden, WAITAOF proves each write", () => {
  const forbidden: Fault = {
    kind: "rewrite",
    words: ["EVAL", "return redis.error_reply('NOPERM no permission to run config|get')", "0"],
  };
  const waitAof = (local: number): Fault => ({
    kind: "rewrite",
    words: ["EVAL", `return {${local}, 0}`, "0"],
  });
  const answering = (local: () => number, seen: string[][] = []) => {
    proxy.onCommand = (words) => {
      seen.push([...words]);
      if (/^config$/i.test(words[0] ?? "")) return forbidden;
      if (/^waitaof$/i.test(words[0] ?? "")) return waitAof(local());
      return undefined;
    };
  };

  test("each add and each claim is followed by WAITAOF on its own connection before the 202", async () => {
    const seen: string[][] = [];
    answering(() => 1, seen);
    const gateway = await start({ redisUrl: proxy.url });
    expect((await send(gateway.address, { method: "GET", path: "/readyz" })).json()).toMatchObject({
      redis: "waitaof",
    });
    seen.length = 0;
    expect((await post(gateway, "/evidence", { "X-Id": "1" })).status).toBe(202);
    const kinds = seen.map(kindOf);
    expect(kinds.filter((kind) => kind !== "other").join(" ")).toMatch(
      /^(record )+waitaof (add )+waitaof (record )+waitaof$/,
    );
  });

  test("a write that WAITAOF does not confirm is no 202", async () => {
    let local = 1;
    answering(() => local);
    const gateway = await start({ redisUrl: proxy.url, enqueueTimeoutMs: 400 });
    local = 0;
    expect((await post(gateway)).json()).toMatchObject({ status: 503, code: "queue.outcome_unknown" });
  });

  test("neither is a start without either", async () => {
    proxy.onCommand = (words) => (/^config$/i.test(words[0] ?? "") ? forbidden : undefined);
    const gateway = await start({ redisUrl: proxy.url, early: true });
    await expect(gateway.gateway.firstCheck).rejects.toThrow(/WAITAOF/);
  });
});

describe("backpressure: 503 before anything is read or written", () => {
  test("queue depth", async () => {
    const gateway = await start({ limits: { queueDepthMax: 3 } });
    for (let i = 0; i < 3; i++) expect((await post(gateway)).status).toBe(202);
    await eventually(
      "the limit is seen",
      async () => (await post(gateway)).json()["code"] === "queue.overloaded",
    );
    const ready = await send(gateway.address, { method: "GET", path: "/readyz" });
    expect([ready.status, ready.json()["backpressure"]]).toEqual([
      200,
      expect.stringContaining("queue.overloaded"),
    ]);
    await gateway.queue.obliterate({ force: true });
    await eventually("it takes calls again", async () => (await post(gateway)).status === 202);
  });

  test("age of the oldest waiting call", async () => {
    const gateway = await start({ limits: { oldestAgeMsMax: 50 } });
    expect((await post(gateway)).status).toBe(202);
    await eventually(
      "the limit is seen",
      async () => (await post(gateway)).json()["code"] === "queue.overloaded",
    );
  });

  test("Redis memory", async () => {
    const full = await startRedis({ env: process.env, args: ["--maxmemory", "5mb"] });
    const gateway = await start({
      redisUrl: full.url,
      directUrl: full.url,
      limits: { redisMemoryRatioMax: 0.05 },
    });
    await eventually("the limit is seen", async () => {
      const answer = await post(gateway);
      return answer.status === 503 && String(answer.json()["detail"]).includes("Redis memory");
    });
    await gateway.close();
    open.splice(0);
    await full.stop();
  });
});
