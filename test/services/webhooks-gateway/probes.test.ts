import { beforeAll, expect, test } from "vitest";
import { type TestWebhooks, useWebhooks } from "../../fixtures/webhooks.ts";
import { send, sendRaw } from "../../support/http.ts";

const webhooks = useWebhooks();
let gateway: TestWebhooks;

beforeAll(async () => {
  gateway = await webhooks.start({ endpoints: [{ path: "/id", job_id: 1, auth: "none" }] });
});

const get = (path: string) => send(gateway.address, { method: "GET", path });

test("health and liveness answer ok, uncached, and without a header that names the server software", async () => {
  const health = await get("/webhooks/health");
  const type = "text/plain; charset=utf-8";
  expect([health.status, health.text, health.headers["content-type"]]).toEqual([200, "ok", type]);
  expect(health.headers).toMatchObject({ "cache-control": "no-store", "x-content-type-options": "nosniff" });
  expect(health.headers["x-powered-by"]).toBeUndefined();
  expect(await get("/livez")).toMatchObject({ status: 200, text: "ok" });
});

test("a probe's target may be a URL (RFC 9112, section 3.2.2)", async () => {
  for (const path of ["/webhooks/health", "/livez", "/readyz"])
    expect((await get(`http://gateway.example${path}`)).status).toBe(200);
});

test("a gateway whose Redis is durable is ready, and reports its checks", async () => {
  const ready = await get("/readyz");
  expect(ready.status).toBe(200);
  expect(ready.json()).toMatchObject({
    status: "ready",
    redis: "always",
    durability: "strict",
    draining: false,
    backpressure: "none",
  });
});

test("the metrics are not on the public address", async () => {
  expect((await get("/metrics")).status).toBe(404);
});

test.each(["/webhooks/health", "/livez", "/readyz"])(
  "every method except GET and HEAD is refused at %s with 405 and Allow",
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
  "/Livez",
  "http://gateway.example/Livez",
  "http://user@gateway.example/livez",
  "http://[::1",
  "*",
  "/webhooks/health#x",
  "/webhooks\\health",
  "//webhooks/health",
  "/webhooks/%68ealth",
  "/webhooks/health/",
])("GET %s, which is not exactly a probe's path, is refused with a 404 problem document", async (target) => {
  const raw = await sendRaw(
    gateway.address,
    `GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
  );
  expect(raw).toMatch(/^HTTP\/1\.1 404/);
  expect(raw).toContain("Content-Type: application/problem+json");
  expect(raw).toContain('"code":"request.not_found"');
});
