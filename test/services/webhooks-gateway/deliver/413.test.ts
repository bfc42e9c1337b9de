import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { beforeAll, expect, test } from "vitest";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { send, sendRaw } from "../../../support/http.ts";

const endpoints = [
  { path: "/any", job_id: 1, auth: "none" },
  { path: "/decodes", job_id: 1, auth: "none", encoded_bodies: "decode" },
];

const webhooks = useWebhooks();
let gateway: TestWebhooks;

beforeAll(async () => {
  gateway = await webhooks.start({ endpoints, webhooks: { body_limit_bytes: 4096 } });
});

test("a webhook that declares a body over the limit is refused with 413 before a byte of it", async () => {
  const head = `POST /any HTTP/1.1\r\nHost: x\r\nContent-Length: ${10 ** 12}\r\n\r\n`;
  const raw = await sendRaw(gateway.address, head);
  expect(raw).toMatch(/^HTTP\/1\.1 413/);
  expect(raw).toMatch(/Connection: close/i);
  expect(raw).toContain('"code":"request.too_large"');
});

test("a webhook that expects 100-continue for a body over the limit gets a 413 and no 100", async () => {
  const head = `POST /any HTTP/1.1\r\nHost: x\r\nContent-Length: ${10 ** 9}\r\nExpect: 100-continue\r\n\r\n`;
  expect(await sendRaw(gateway.address, head)).toMatch(/^HTTP\/1\.1 413/);
});

test("an endless chunked body is refused with 413 at the limit, and the sender still gets the answer", async () => {
  const chunk = `1000\r\n${"x".repeat(4096)}\r\n`;
  const head = "POST /any HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  const raw = await sendRaw(gateway.address, [head, ...Array<string>(500).fill(chunk)]);
  expect(raw).toMatch(/^HTTP\/1\.1 413/);
  expect(await webhooks.waiting()).toEqual([]);
});

test.each([
  ["gzip", gzipSync],
  ["deflate", deflateSync],
  ["br", brotliCompressSync],
] as const)("a small %s body that stands for a large one is refused with 413", async (encoding, encode) => {
  const bomb = encode(Buffer.alloc(2 * 1024 * 1024));
  const headers = { "Content-Encoding": encoding };
  expect((await send(gateway.address, { path: "/decodes", headers, body: bomb })).status).toBe(413);
});
