import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { Redis } from "ioredis";
import { expect, test } from "vitest";
import { createPricingService } from "../../services/pricing/pricing.ts";
import { createProducer } from "../../services/producer/producer.ts";
import { createRouter, createRunner } from "../../services/runner/runner.ts";
import { createWebhooksGateway } from "../../services/webhooks-gateway/gateway.ts";
import { createX402Gateway } from "../../services/x402-gateway/gateway.ts";
import { devToken } from "../../shared/dev/config.ts";
import { eventually } from "../../shared/dev/wait.ts";
import type { Part, ServedPart } from "../../shared/part/part.ts";
import { useDevnet } from "../fixtures/devnet.ts";
import { useEnds } from "../fixtures/ends.ts";
import { PRICING } from "../fixtures/pricing.ts";
import { useOwnRedis, useRedis } from "../fixtures/redis.ts";
import { gate } from "../services/runner/gated-jobs.ts";
import { send } from "../support/http.ts";

/*
 * useRedis checks at the end that no part has left a connection open.
 */
const redis = useRedis();
const weak = useOwnRedis(["--appendfsync", "everysec"]);
const devnet = useDevnet();
const ends = useEnds();

const NOWHERE = "redis://127.0.0.1:1";
const webhooks = { endpoints: [{ path: "/a", job_id: 1, auth: "none" as const }] };
const at = (url: string) => ({ redis: { url } });

const served: Record<string, (redis: string) => ServedPart> = {
  "webhooks gateway": (url) => createWebhooksGateway({ postern: at(url), webhooks }),
  "payment gateway": (url) =>
    createX402Gateway({
      postern: at(url),
      x402: {
        ...{ public_url: "http://pay.test", facilitator_url: devnet.facilitatorUrl },
        quote_secret: "a quote secret for these tests",
        accepted_tokens: [devToken(devnet)],
      },
      job_pricing: { 1: { 7: "1000000000000000" } },
    }),
  runner: (url) =>
    createRunner({ postern: at(url), jobs: createRouter().job(1, { name: "a", handler: () => ({}) }) }),
  "runner with its own Redis": (url) =>
    createRunner({ postern: { ...at(NOWHERE), runner: { redis: { url } } }, jobs: createRouter() }),
  "pricing engine": (url) => createPricingService({ postern: at(url), ...PRICING }),
};
const all: Record<string, (redis: string) => Part> = {
  ...served,
  producer: (url) => createProducer({ postern: at(url), inject: async () => {} }),
};

test.each(Object.entries(all))(
  "a %s is ready after its start, and not ready once it is stopped",
  async (_, make) => {
    const part = make(redis.url);
    ends.defer(() => part.close());
    await part.ready();
    await eventually("it is ready", () => part.readiness().ready);
    part.stop();
    expect(part.readiness().ready).toBe(false);
  },
);

test.each(Object.entries(served))(
  "a %s on a Redis that may lose writes is never ready, and ready() rejects with the remedy",
  async (_, make) => {
    const part = make(weak.url);
    await expect(part.ready()).rejects.toMatchObject({ code: "start.redis_not_durable" });
    await part.close();
  },
);

test.each(Object.entries(all))(
  "ready() of a %s rejects if the part is closed while Redis is unavailable",
  async (_, make) => {
    const part = make(NOWHERE);
    const ready = expect(part.ready()).rejects.toThrow("closed before it was ready");
    await part.close();
    await ready;
  },
);

test.each(Object.entries(served))(
  "close() of a %s closes the servers that listen() started, and may be called twice",
  async (_, make) => {
    const part = make(redis.url);
    const { address } = await part.listen("127.0.0.1:0");
    const path = "/livez-or-not";
    expect((await send(address, { path, method: "GET" })).status).toBe(404);
    await Promise.all([part.close(), part.close()]);
    await expect(send(address, { path, method: "GET" })).rejects.toThrow(/ECONNREFUSED/);
  },
);

test("a stopped gateway answers 503, but finishes a request that was in flight in the host's server", async () => {
  const gateway = createWebhooksGateway({ postern: at(redis.url), webhooks });
  let begun = 0;
  const server = createServer((req, res) => {
    begun += 1;
    gateway.handler(req, res);
  }).listen(0, "127.0.0.1");
  ends.defer(() => server.close());
  await gateway.ready();
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;

  const rest = gate();
  const slow = fetch(`http://${address}/a`, {
    method: "POST",
    duplex: "half",
    body: new ReadableStream({
      async start(controller) {
        controller.enqueue(Buffer.from("the first half, "));
        await rest.opened;
        controller.enqueue(Buffer.from("the other"));
        controller.close();
      },
    }),
  } as RequestInit);
  await eventually("the request is in flight", () => begun === 1);
  let isClosed = false;
  const closed = gateway.close().then(() => {
    isClosed = true;
  });
  const refused = await send(address, { path: "/a", body: "late" });
  expect([refused.status, refused.json()["code"]]).toEqual([503, "service.draining"]);
  expect(isClosed).toBe(false);
  rest.open();
  expect([202, 503]).toContain((await slow).status);
  await closed;
});

test("a gateway closes at once in the host's server when only requests of broken connections remain", async () => {
  const gateway = createWebhooksGateway({ postern: at(redis.url), webhooks });
  const paths: (string | undefined)[] = [];
  const server = createServer((req, res) => {
    const handle = () => {
      gateway.handler(req, res);
      paths.push(req.url);
    };
    // The host's own handler may delay a request like this.
    if (req.url?.startsWith("/late")) req.socket.once("close", handle);
    else handle();
  }).listen(0, "127.0.0.1");
  ends.defer(() => server.close());
  await gateway.ready();
  const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
  const post = (path: string) => `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n`;
  const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`;
  client.on("error", () => {});
  client.write(`${get("/late/1")}${get("/late/2")}${get("/none")}${post("/a")}`);
  await eventually("two requests are in flight", () => paths.length === 2);
  client.resetAndDestroy();
  await eventually("all have begun", () => paths.length === 4);
  await gateway.close(600_000);
  expect(paths.sort()).toEqual(["/a", "/late/1", "/late/2", "/none"]);
});

test("a stopped producer takes no further calls, and another producer takes them", async () => {
  const gateway = createWebhooksGateway({ postern: at(redis.url), webhooks });
  ends.defer(() => gateway.close());
  await gateway.ready();
  const { address } = await gateway.listen("127.0.0.1:0");
  const ran = { first: 0, second: 0 };
  const producers = (["first", "second"] as const).map((name) => {
    const inject = async () => {
      ran[name] += 1;
    };
    const producer = createProducer({ postern: at(redis.url), inject });
    ends.defer(() => producer.close());
    return producer;
  });
  await Promise.all(producers.map((producer) => producer.ready()));
  producers[0]?.stop();
  for (let i = 0; i < 20; i++) await send(address, { path: "/a", body: `${i}` });
  await eventually("all ran", () => ran.first + ran.second >= 20);
  expect(ran.second).toBeGreaterThan(0);
  const before = ran.first;
  for (let i = 0; i < 20; i++) await send(address, { path: "/a", body: `${i}` });
  await eventually("all ran", () => ran.second >= 40 - before);
  expect(ran.first).toBe(before);
});

test("the host's own connection stays open when a part is closed", async () => {
  const own = new Redis(redis.url, {
    ...{ enableOfflineQueue: false, maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false },
    ...{ commandTimeout: 1500, lazyConnect: true },
  });
  ends.defer(() => own.disconnect());
  const gateway = createWebhooksGateway({ redis: own, webhooks });
  await gateway.ready(); // ready() connects a lazy connection
  await gateway.close();
  expect(await own.ping()).toBe("PONG");
});
