import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type PrivateRedis, startRedis } from "../../shared/private-redis/start-redis.ts";
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
