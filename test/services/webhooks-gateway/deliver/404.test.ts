import { beforeAll, expect, test } from "vitest";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { send, sendRaw } from "../../../support/http.ts";

const endpoints = [
  { path: "/Hooks/a", job_id: 1, auth: "none" },
  { path: "/%41", job_id: 3, auth: "none" },
  { path: "/hooks/a+", job_id: 4, auth: "none" },
];

const webhooks = useWebhooks();
let gateway: TestWebhooks;

beforeAll(async () => {
  gateway = await webhooks.start({ endpoints });
});

test.each([
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
])("a webhook to %s, which is not exactly an endpoint's path, is refused with 404", async (path) => {
  const answer = await send(gateway.address, { path, body: "x" });
  expect(answer.status).toBe(404);
  expect(answer.headers["content-type"]).toBe("application/problem+json");
  expect(answer.json()).toMatchObject({ code: "request.not_found", status: 404 });
});

test.each([
  ["with another path", "http://shop.example/hooks/a"],
  ["with a user in it", "http://user@shop.example/Hooks/a"],
  ["of another scheme", "ftp://shop.example/Hooks/a"],
  ["without a host", "http:///Hooks/a"],
])("a webhook whose target is a URL %s is refused with 404", async (_what, target) => {
  const raw = await sendRaw(
    gateway.address,
    `POST ${target} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`,
  );
  expect(raw).toMatch(/^HTTP\/1\.1 404/);
});
