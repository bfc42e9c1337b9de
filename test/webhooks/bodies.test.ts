import { createHash, createHmac, randomBytes } from "node:crypto";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type PrivateRedis, startRedis } from "../../shared/dev/redis.ts";
import { eventually } from "../../shared/dev/wait.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { openRaw, send, sendRaw } from "../support/http.ts";

const SECRET = "a secret for the bodies' signature";
const LIMIT = 4096;

const endpoints = [
  { path: "/any", job_id: 1, auth: "none" },
  { path: "/roomy", job_id: 1, auth: "none", body_limit_bytes: 1024 * 1024 },
  { path: "/key", job_id: 1, auth: "api-key", secret: SECRET },
  { path: "/decodes", job_id: 1, auth: "none", encoded_bodies: "decode" },
  { path: "/signed-received", job_id: 1, auth: "hmac-sha256", secret: SECRET, encoded_bodies: "decode" },
  {
    path: "/signed-decoded",
    job_id: 1,
    auth: "hmac-sha256",
    secret: SECRET,
    encoded_bodies: "decode",
    signature_over: "decoded",
  },
];

let redis: PrivateRedis;
let gateway: TestGateway;

beforeAll(async () => {
  redis = await startRedis({ env: process.env });
  const webhooks = { body_limit_bytes: LIMIT, request_timeout_secs: 0.5, endpoints };
  gateway = await startGateway({ redisUrl: redis.url, webhooks });
});
afterAll(async () => {
  await gateway.close();
  await redis.stop();
});
beforeEach(() => gateway.queue.obliterate({ force: true }));

async function onlyCall() {
  const calls = await gateway.waiting();
  expect(calls).toHaveLength(1);
  return calls[0]!;
}
const bodyOf = (call: { body: string }) => Buffer.from(call.body, "base64");
const sha256 = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");

describe("any body arrives unchanged", () => {
  test("no body at all, and no Content-Type", async () => {
    const raw = await sendRaw(gateway.address, "POST /any HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    expect(raw).toMatch(/^HTTP\/1\.1 202/);
    expect(await onlyCall()).toMatchObject({ body: "", bytes: 0 });
    expect(await onlyCall()).not.toHaveProperty("content_type");
  });

  test("an empty body", async () => {
    expect((await send(gateway.address, { path: "/any", headers: { "Content-Length": "0" } })).status).toBe(
      202,
    );
    expect(await onlyCall()).toMatchObject({ body: "", bytes: 0, sha256: sha256(Buffer.alloc(0)) });
  });

  test("any bytes under any Content-Type, whole or chunked", async () => {
    const bytes = fc.uint8Array({ maxLength: LIMIT }).map((array) => Buffer.from(array));
    const type = fc.constantFrom(
      undefined,
      "application/json",
      "text/plain;charset=utf-16",
      "x",
      "multipart/form-data",
    );
    await fc.assert(
      fc.asyncProperty(bytes, type, fc.boolean(), async (body, contentType, chunked) => {
        await gateway.queue.obliterate({ force: true });
        const half = Math.floor(body.length / 2);
        const headers = contentType === undefined ? {} : { "Content-Type": contentType };
        const chunks = [body.subarray(0, half), body.subarray(half)].filter((chunk) => chunk.length > 0);
        const answer = await send(gateway.address, { path: "/any", headers, body: chunked ? chunks : body });
        expect(answer.status).toBe(202);
        const call = await onlyCall();
        expect(bodyOf(call).equals(body)).toBe(true);
        expect(call).toMatchObject({ bytes: body.length, sha256: sha256(body) });
        expect(call.content_type).toBe(contentType);
      }),
      { numRuns: 60 },
    );
  });

  test("a body of exactly the limit, and a megabyte where that is allowed", async () => {
    expect((await send(gateway.address, { path: "/any", body: randomBytes(LIMIT) })).status).toBe(202);
    await gateway.queue.obliterate({ force: true });
    const large = randomBytes(1024 * 1024);
    expect((await send(gateway.address, { path: "/roomy", body: large })).status).toBe(202);
    expect(bodyOf(await onlyCall()).equals(large)).toBe(true);
  });

  test("Expect: 100-continue is told to continue, and only then sends", async () => {
    const head =
      "POST /any HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n";
    const raw = await sendRaw(gateway.address, [head, "hello"]);
    expect(raw).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 202/);
  });
});

describe("413: too large, without reading on", () => {
  test("a declared length over the limit is refused before a byte of the body", async () => {
    const head = `POST /any HTTP/1.1\r\nHost: x\r\nContent-Length: ${10 ** 12}\r\n\r\n`;
    const raw = await sendRaw(gateway.address, head);
    expect(raw).toMatch(/^HTTP\/1\.1 413/);
    expect(raw).toMatch(/Connection: close/i);
    expect(raw).toContain('"code":"request.too_large"');
  });

  test("one that expects 100-continue never hears it", async () => {
    const head = `POST /any HTTP/1.1\r\nHost: x\r\nContent-Length: ${10 ** 9}\r\nExpect: 100-continue\r\n\r\n`;
    expect(await sendRaw(gateway.address, head)).toMatch(/^HTTP\/1\.1 413/);
  });

  test("an endless chunked body is refused at the limit, and the sender still gets the answer", async () => {
    const chunk = `1000\r\n${"x".repeat(4096)}\r\n`;
    const head = "POST /any HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    const raw = await sendRaw(gateway.address, [head, ...Array<string>(500).fill(chunk)]);
    expect(raw).toMatch(/^HTTP\/1\.1 413/);
    expect(await gateway.waiting()).toEqual([]);
  });

  test("a bad credential is refused before its large body is looked at", async () => {
    const head = "POST /key HTTP/1.1\r\nHost: x\r\nX-API-Key: no\r\nContent-Length: 900000000\r\n\r\n";
    const raw = await sendRaw(gateway.address, head);
    expect(raw).toMatch(/^HTTP\/1\.1 401/);
    expect(raw).toMatch(/Connection: close/i);
  });
});

describe("408: slow and stuck clients", () => {
  test("headers that never end", async () => {
    const raw = await sendRaw(gateway.address, "POST /any HTTP/1.1\r\nHost: x\r\n");
    expect(raw).toMatch(/^HTTP\/1\.1 408/);
    expect(raw).toContain('"code":"request.timed_out"');
  });

  test("a body that never ends", async () => {
    const head = "POST /any HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc";
    expect(await sendRaw(gateway.address, head)).toMatch(/^HTTP\/1\.1 408/);
    expect(await gateway.waiting()).toEqual([]);
  });

  test("a rest that comes after the 408 is not accepted: a sender that was refused has nothing queued", async () => {
    const head = "POST /any HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabcde";
    const sender = openRaw(gateway.address, head);
    await eventually("it is told", () => sender.received().includes("408"));
    await sender.sendUntilReset("fghij");
    expect(gateway.log.events.at(-1)).toMatchObject({
      event: "webhook.refused",
      fields: { code: "request.timed_out", path: "/any" },
    });
    expect(await gateway.waiting()).toEqual([]);
    expect(sender.received().match(/HTTP\/1\.1/g)).toHaveLength(1);
  });
});

test("431 and 400: headers that are too long, and requests that are none", async () => {
  const long = `POST /any HTTP/1.1\r\nHost: x\r\nX-Long: ${"x".repeat(20_000)}\r\n\r\n`;
  expect(await sendRaw(gateway.address, long)).toMatch(
    /^HTTP\/1\.1 431[\s\S]*"code":"request.headers_too_large"/,
  );
  expect(await sendRaw(gateway.address, "nonsense\r\n\r\n")).toMatch(
    /^HTTP\/1\.1 400[\s\S]*"code":"request.malformed"/,
  );
  const smuggled =
    "POST /any HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
  expect(await sendRaw(gateway.address, smuggled)).toMatch(/^HTTP\/1\.1 400/);
});

test("a call that is followed by garbage gets its own answer first, then the garbage gets a 400", async () => {
  const call = "POST /any HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
  const raw = await sendRaw(gateway.address, `${call}garbage\r\n\r\n`);
  expect(raw.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 202", "HTTP/1.1 400"]);
  expect(await gateway.waiting()).toHaveLength(1);
});

describe("Content-Encoding", () => {
  const text = Buffer.from("all work and no play ".repeat(20));
  const encodings = [
    ["gzip", gzipSync],
    ["deflate", deflateSync],
    ["br", brotliCompressSync],
  ] as const;

  test("415 unless the endpoint opts in", async () => {
    const headers = { "Content-Encoding": "gzip" };
    const answer = await send(gateway.address, { path: "/any", headers, body: gzipSync(text) });
    expect(answer.status).toBe(415);
    expect(answer.json()).toMatchObject({ code: "request.encoding_unsupported" });
    expect(
      (await send(gateway.address, { path: "/any", headers: { "Content-Encoding": "identity" }, body: "x" }))
        .status,
    ).toBe(202);
  });

  test.each(encodings)("%s is decoded where the endpoint says so", async (encoding, encode) => {
    const headers = { "Content-Encoding": encoding };
    expect((await send(gateway.address, { path: "/decodes", headers, body: encode(text) })).status).toBe(202);
    expect(bodyOf(await onlyCall()).equals(text)).toBe(true);
  });

  test.each(encodings)("413: a small %s body that stands for a large one", async (encoding, encode) => {
    const bomb = encode(Buffer.alloc(2 * 1024 * 1024));
    const headers = { "Content-Encoding": encoding };
    expect((await send(gateway.address, { path: "/decodes", headers, body: bomb })).status).toBe(413);
  });

  test("400: a body that is not what it says; 415: an encoding nobody decodes, or two", async () => {
    const sendAs = (encoding: string) =>
      send(gateway.address, { path: "/decodes", headers: { "Content-Encoding": encoding }, body: "plain" });
    expect((await sendAs("gzip")).json()).toMatchObject({ status: 400, code: "request.encoding_broken" });
    expect((await sendAs("zstd")).status).toBe(415);
    expect((await sendAs("gzip, br")).status).toBe(415);
  });

  test("the signature covers the bytes as received or decoded, as configured", async () => {
    const encoded = gzipSync(text);
    const signed = (path: string, over: Buffer) => {
      const signature = createHmac("sha256", SECRET).update(over).digest("hex");
      const headers = { "Content-Encoding": "gzip", "X-Signature-256": signature };
      return send(gateway.address, { path, headers, body: encoded });
    };
    expect((await signed("/signed-received", encoded)).status).toBe(202);
    expect((await signed("/signed-received", text)).status).toBe(401);
    expect((await signed("/signed-decoded", text)).status).toBe(202);
    expect((await signed("/signed-decoded", encoded)).status).toBe(401);
  });
});
