import { beforeAll, expect, test } from "vitest";
import { sendRaw } from "../../../support/http.ts";
import { echo, type TestServer, useServers } from "./servers.ts";

const servers = useServers();
let server: TestServer;

beforeAll(async () => {
  server = await servers.serve(echo);
});

const LENGTH_AND_CHUNKS = "Content-Length: 3\r\nTransfer-Encoding: chunked";

test.each([
  ["is no HTTP", "nonsense\r\n\r\n"],
  ["names no HTTP version", "GET /\r\n\r\n"],
  ["names no HTTP version, and has a Host", "GET /\r\nHost: x\r\n\r\n"],
  ["is of HTTP/0.9", "GET / HTTP/0.9\r\nHost: x\r\n\r\n"],
  ["has no Host", "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"],
  ["has two Hosts", "POST / HTTP/1.1\r\nHost: x\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"],
  ["has two Hosts and is of HTTP/1.0", "POST / HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n"],
  ["has two Hosts, and a URL as its target", "GET http://x/ HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"],
  ["has a URL as its target and no Host", "GET http://x/ HTTP/1.1\r\n\r\n"],
  ["names no transfer coding", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n\r\n"],
  [
    "does not end its codings with chunks",
    "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\nabc",
  ],
  ["has a length and chunks", `POST / HTTP/1.1\r\nHost: x\r\n${LENGTH_AND_CHUNKS}\r\n\r\n0\r\n\r\n`],
  ["has two lengths", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"],
  ["has a header without a name", "POST / HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n"],
])("a request that %s is refused with 400, and its connection ends", async (_what, bytes) => {
  const raw = await sendRaw(server.address, bytes);
  expect(raw).toMatch(/^HTTP\/1\.1 400/);
  expect(raw).toMatch(/Connection: close/i);
});

test.each([
  ["bytes that are no request", "nonsense\r\n\r\n"],
  ["a request without a Host", "GET / HTTP/1.1\r\n\r\n"],
  ["a request with two Hosts", "GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n"],
])("a 400 for %s is a problem document", async (_what, bytes) => {
  const raw = await sendRaw(server.address, bytes, { enough: (soFar) => soFar.includes("}") });
  expect(raw).toContain("application/problem+json");
  expect(raw).toContain('"code":"request.malformed"');
});
