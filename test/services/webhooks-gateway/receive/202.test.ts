import { createHash, randomBytes } from "node:crypto";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import { type TestWebhooks, useWebhooks } from "../../../fixtures/webhooks.ts";
import { send, sendRaw } from "../../../support/http.ts";
import { LONG_RUN } from "../../../support/long-run.ts";
import { BODY, ENDPOINTS, OLD_SECRET, SECRET, SIGNED_OVER, sign, utf8 } from "./credentials.ts";

const LIMIT = 4096;
const endpoints = [
  ...ENDPOINTS,
  ...SIGNED_OVER,
  { path: "/roomy", job_id: 1, auth: "none", body_limit_bytes: 1024 * 1024 },
  { path: "/decodes", job_id: 1, auth: "none", encoded_bodies: "decode" },
  { path: "/Hooks/a", job_id: 1, auth: "none" },
  { path: "/%41", job_id: 3, auth: "none" },
  { path: "/hooks/a+", job_id: 4, auth: "none" },
];

const webhooks = useWebhooks();
let gateway: TestWebhooks;

beforeAll(async () => {
  gateway = await webhooks.start({ endpoints, webhooks: { body_limit_bytes: LIMIT } });
});

const bodyOf = (call: { body: string }) => Buffer.from(call.body, "base64");
const sha256 = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");

/** RFC 9112, section 3.2.2. As with Host, the gateway ignores the name. */
test("a webhook whose target is a URL is accepted by its path, and the host in the URL and in Host are ignored", async () => {
  const target = "http://a.example:8080/none?b=http://c/d";
  const fields = "Host: x\r\nContent-Length: 2\r\nConnection: close";
  const raw = await sendRaw(gateway.address, `POST ${target} HTTP/1.1\r\n${fields}\r\n\r\nhi`);
  expect(raw).toMatch(/^HTTP\/1\.1 202/);
  expect((await webhooks.onlyCall()).metadata).toMatchObject({ "X-WEBHOOK-PATH": "/none" });
});

test("a webhook becomes a call with its endpoint's metadata, and with nothing else from the request", async () => {
  const answer = await send(gateway.address, {
    path: "/none?secret=in-the-query",
    headers: {
      "Content-Type": "text/plain; charset=x",
      "X-PLATFORM-SERVICE-ID": "999",
      traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01`,
    },
    body: "hi",
  });
  expect(answer.status).toBe(202);
  const call = await webhooks.onlyCall();
  expect(call).toEqual({
    id: expect.stringMatching(/^c_[0-9a-f]{32}$/),
    origin: "webhook",
    service_id: 7,
    job_id: 1,
    metadata: {
      "X-PLATFORM-SERVICE-ID": "7",
      "X-PLATFORM-CALL-ID": call.id,
      "X-WEBHOOK-PATH": "/none",
      "X-WEBHOOK-ORIGIN": "webhook",
    },
    content_type: "text/plain; charset=x",
    body: "aGk=",
    sha256: "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4",
    bytes: 2,
    accepted_at: expect.any(Number),
    traceparent: `00-${"a".repeat(32)}-${"b".repeat(16)}-01`,
  });
});

test.each(["/Hooks/a", "/%41", "/hooks/a+", "/Hooks/a?x=1", "/Hooks/a?"])(
  "a webhook to %s, which equals an endpoint's path except for the query, is accepted",
  async (path) => {
    expect((await send(gateway.address, { path, body: "x" })).status).toBe(202);
  },
);

const good = sign(BODY);
const accepted: [string, string, string[]][] = [
  ["no credential at an endpoint that requires none", "/none", []],
  ["a bearer token", "/bearer", ["Authorization", utf8(`Bearer ${SECRET}`)]],
  ["the bearer scheme in any case", "/bearer", ["Authorization", utf8(`bEARER ${SECRET}`)]],
  ["the older of two active bearer secrets", "/bearer", ["Authorization", `Bearer ${OLD_SECRET}`]],
  ["an API key", "/key", ["X-API-Key", utf8(SECRET)]],
  ["an API key in the endpoint's own header", "/own-key", ["X-Own-Key", utf8(SECRET)]],
  ["a bare hex signature", "/hmac", ["X-Signature-256", good]],
  ["a signature with its prefix", "/hmac", ["X-Hub-Signature-256", `sha256=${good}`]],
  ["a signature in upper case", "/hmac", ["X-Webhook-Signature", good.toUpperCase()]],
  ["a signature by the older of two active secrets", "/hmac", ["X-Signature-256", sign(BODY, OLD_SECRET)]],
  [
    "a valid signature in the first of three headers",
    "/hmac",
    ["X-Webhook-Signature", "nonsense", "X-Hub-Signature-256", sign("other"), "X-Signature-256", good],
  ],
];

test.each(accepted)("a webhook with %s is answered with 202 and its call's id", async (_, path, headers) => {
  const answer = await send(gateway.address, { path, headers, body: BODY });
  expect(answer.status).toBe(202);
  const call = await webhooks.onlyCall();
  expect(answer.json()).toEqual({ status: "accepted", job_id: call.job_id, call_id: call.id });
});

test("a webhook whose signed body is not text is accepted, because the signature covers the bytes", async () => {
  const body = Buffer.from([0x7b, 0x7d, 0xff, 0x00, 0x0a]);
  const headers = ["X-Signature-256", sign(body)];
  expect((await send(gateway.address, { path: "/hmac", headers, body })).status).toBe(202);
});

test("a webhook without a body and without a Content-Type is accepted", async () => {
  const raw = await sendRaw(gateway.address, "POST /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  expect(raw).toMatch(/^HTTP\/1\.1 202/);
  expect(await webhooks.onlyCall()).toMatchObject({ body: "", bytes: 0 });
  expect(await webhooks.onlyCall()).not.toHaveProperty("content_type");
});

test("a webhook with an empty body is accepted", async () => {
  const answer = await send(gateway.address, { path: "/none", headers: { "Content-Length": "0" } });
  expect(answer.status).toBe(202);
  expect(await webhooks.onlyCall()).toMatchObject({ body: "", bytes: 0, sha256: sha256(Buffer.alloc(0)) });
});

test("a body of any bytes and any Content-Type, with a length or chunked, becomes the call's body unchanged", async () => {
  const bytes = fc.uint8Array({ maxLength: LIMIT }).map((array) => Buffer.from(array));
  const types = [undefined, "application/json", "text/plain;charset=utf-16", "x", "multipart/form-data"];
  await fc.assert(
    fc.asyncProperty(bytes, fc.constantFrom(...types), fc.boolean(), async (body, contentType, chunked) => {
      await webhooks.queues.clear();
      const half = Math.floor(body.length / 2);
      const headers = contentType === undefined ? {} : { "Content-Type": contentType };
      const chunks = [body.subarray(0, half), body.subarray(half)].filter((chunk) => chunk.length > 0);
      const answer = await send(gateway.address, { path: "/none", headers, body: chunked ? chunks : body });
      expect(answer.status).toBe(202);
      const call = await webhooks.onlyCall();
      expect(bodyOf(call).equals(body)).toBe(true);
      expect(call).toMatchObject({ bytes: body.length, sha256: sha256(body) });
      expect(call.content_type).toBe(contentType);
    }),
    { numRuns: LONG_RUN ? 60 : 12 },
  );
});

test("a webhook whose body is exactly as long as the limit is accepted", async () => {
  expect((await send(gateway.address, { path: "/none", body: randomBytes(LIMIT) })).status).toBe(202);
});

test("a webhook with a body of a megabyte is accepted if the endpoint's limit allows it", async () => {
  const large = randomBytes(1024 * 1024);
  expect((await send(gateway.address, { path: "/roomy", body: large })).status).toBe(202);
  expect(bodyOf(await webhooks.onlyCall()).equals(large)).toBe(true);
});

test("a sender that expects 100-continue gets 100 and then 202", async () => {
  const head =
    "POST /none HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n";
  const raw = await sendRaw(gateway.address, [head, "hello"]);
  expect(raw).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 202/);
});

test.each([
  ["gzip", gzipSync],
  ["deflate", deflateSync],
  ["br", brotliCompressSync],
] as const)("a %s body is decoded where the endpoint says so", async (encoding, encode) => {
  const text = Buffer.from("all work and no play ".repeat(20));
  const headers = { "Content-Encoding": encoding };
  expect((await send(gateway.address, { path: "/decodes", headers, body: encode(text) })).status).toBe(202);
  expect(bodyOf(await webhooks.onlyCall()).equals(text)).toBe(true);
});

test.each([
  ["received", gzipSync(BODY)],
  ["decoded", Buffer.from(BODY)],
])(
  "an encoded webhook whose signature covers its body as %s is accepted if the endpoint is configured so",
  async (how, over) => {
    const headers = { "Content-Encoding": "gzip", "X-Signature-256": sign(over) };
    const answer = await send(gateway.address, { path: `/signed-${how}`, headers, body: gzipSync(BODY) });
    expect(answer.status).toBe(202);
  },
);

test("the Content-Encoding identity is accepted by an endpoint that accepts no other encoding", async () => {
  const headers = { "Content-Encoding": "identity" };
  expect((await send(gateway.address, { path: "/none", headers, body: "x" })).status).toBe(202);
});

test("a webhook that is followed by garbage gets its 202 before the garbage gets 400", async () => {
  const call = "POST /none HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
  const raw = await sendRaw(gateway.address, `${call}garbage\r\n\r\n`);
  expect(raw.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 202", "HTTP/1.1 400"]);
  expect(await webhooks.waiting()).toHaveLength(1);
});
