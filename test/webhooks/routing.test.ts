import { Agent } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type PrivateRedis, startRedis } from "../../shared/dev/redis.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { send, sendRaw } from "../support/http.ts";

let redis: PrivateRedis;
let gateway: TestGateway;

beforeAll(async () => {
  redis = await startRedis({ env: process.env });
  const endpoints = [
    { path: "/Hooks/a", job_id: 1, auth: "none" },
    { path: "/:id", job_id: 2, auth: "none" },
    { path: "/%41", job_id: 3, auth: "none" },
    { path: "/hooks/*", job_id: 4, auth: "none" },
  ];
  gateway = await startGateway({ redisUrl: redis.url, webhooks: { endpoints } });
});
afterAll(async () => {
  await gateway.close();
  await redis.stop();
});

describe("paths are matched exactly, as they came", () => {
  test.each(["/Hooks/a", "/:id", "/%41", "/hooks/*", "/Hooks/a?x=1", "/Hooks/a?"])(
    "202: %s",
    async (path) => {
      expect((await send(gateway.address, { path, body: "x" })).status).toBe(202);
    },
  );

  const strange = [
    "/hooks/a",
    "/Hooks/a/",
    "/Hooks//a",
    "//Hooks/a",
    "/Hooks/%61",
    "/./Hooks/a",
    "/x/../Hooks/a",
    "/7",
    "/A",
    "/hooks/b",
    "/",
    "/Hooks/a#x",
  ];
  test.each(strange)("404: %s", async (path) => {
    const answer = await send(gateway.address, { path, body: "x" });
    expect(answer.status).toBe(404);
    expect(answer.headers["content-type"]).toBe("application/problem+json");
    expect(answer.json()).toMatchObject({ code: "request.not_found", status: 404 });
  });

  test("404: the absolute form, which names another host", async () => {
    const raw = await sendRaw(
      gateway.address,
      "POST http://evil/Hooks/a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    );
    expect(raw).toMatch(/^HTTP\/1\.1 404/);
  });
});

test.each(["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"])(
  "405: %s, with Allow: POST",
  async (method) => {
    const answer = await send(gateway.address, { method, path: "/Hooks/a" });
    expect(answer.status).toBe(405);
    expect(answer.headers["allow"]).toBe("POST");
  },
);

test("health and liveness are plain words; nothing advertises what serves them", async () => {
  const health = await send(gateway.address, { method: "GET", path: "/webhooks/health" });
  expect([health.status, health.text, health.headers["content-type"]]).toEqual([
    200,
    "ok",
    "text/plain; charset=utf-8",
  ]);
  expect(health.headers).toMatchObject({ "cache-control": "no-store", "x-content-type-options": "nosniff" });
  expect(health.headers["x-powered-by"]).toBeUndefined();
  expect((await send(gateway.address, { method: "GET", path: "/livez" })).text).toBe("ok");
  expect((await send(gateway.address, { method: "GET", path: "/Livez" })).status).toBe(404);
});

test("/metrics is not on the public address", async () => {
  expect((await send(gateway.address, { method: "GET", path: "/metrics" })).status).toBe(404);
});

test.each(["/webhooks/health", "/livez", "/readyz"])(
  "405: anything but GET and HEAD of %s, with Allow",
  async (path) => {
    for (const method of ["POST", "PUT", "DELETE", "OPTIONS"]) {
      const answer = await send(gateway.address, { method, path });
      expect([answer.status, answer.headers["allow"]]).toEqual([405, "GET, HEAD"]);
      expect(answer.json()).toMatchObject({ code: "request.method_not_allowed" });
    }
    expect((await send(gateway.address, { method: "HEAD", path })).status).toBe(200);
  },
);

test.each([
  "http://evil/webhooks/health",
  "http://evil/livez",
  "http://[::1",
  "*",
  "/webhooks/health#x",
  "/webhooks\\health",
  "//webhooks/health",
  "/webhooks/%68ealth",
  "/webhooks/health/",
])("404, as a problem document: GET %s", async (target) => {
  const raw = await sendRaw(
    gateway.address,
    `GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
  );
  expect(raw).toMatch(/^HTTP\/1\.1 404/);
  expect(raw).toContain("Content-Type: application/problem+json");
  expect(raw).toContain('"code":"request.not_found"');
});

test("a drain is not ready, ends every connection, and still takes what arrives", async () => {
  const draining = await startGateway({
    redisUrl: redis.url,
    webhooks: { endpoints: [{ path: "/a", job_id: 1, auth: "none" }] },
  });
  draining.gateway.drain();
  const ready = await send(draining.address, { method: "GET", path: "/readyz" });
  expect([ready.status, ready.json()["draining"]]).toEqual([503, true]);
  const answer = await send(draining.address, { path: "/a", body: "late" });
  expect([answer.status, answer.headers["connection"]]).toEqual([202, "close"]);
  await draining.close();
});

test("503 service.draining with Retry-After: what still arrives on an open connection once the drain is over", async () => {
  const stopping = await startGateway({
    redisUrl: redis.url,
    webhooks: { endpoints: [{ path: "/a", job_id: 1, auth: "none" }] },
  });
  const agent = new Agent({ keepAlive: true });
  expect((await send(stopping.address, { path: "/a", body: "early", agent })).status).toBe(202);
  stopping.gateway.drain();
  stopping.gateway.stop();
  const answer = await send(stopping.address, { path: "/a", body: "late", agent });
  expect([answer.status, answer.headers["connection"]]).toEqual([503, "close"]);
  expect(answer.json()).toMatchObject({ code: "service.draining" });
  expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
  expect((await send(stopping.address, { method: "GET", path: "/readyz" })).status).toBe(503);
  await stopping.close();
});
