import { beforeAll, expect, test } from "vitest";
import { sendRaw } from "../../../support/http.ts";
import { type TestServer, useServers } from "./servers.ts";

const servers = useServers();
let server: TestServer;

beforeAll(async () => {
  server = await servers.serve((req, res) => res.end(`<${req.url}>`));
});

const targetSeen = async (method: string, target: string): Promise<string | undefined> => {
  const raw = await sendRaw(
    server.address,
    `${method} ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
  );
  return /<.*>/.exec(raw)?.[0];
};

/** RFC 9112, section 3.2. */
test.each([
  ["GET", "http://shop.example/x402/jobs/1/7?a=http://b/c", "/x402/jobs/1/7?a=http://b/c"],
  ["GET", "HTTPS://[2001:db8::1]:8443/%2e%2E//x", "/%2e%2E//x"],
  ["GET", "http://shop.example", "/"],
  ["GET", "http://shop.example?a=1", "/?a=1"],
  ["OPTIONS", "http://shop.example", "*"],
])("%s of the URL %s is served as %s", async (method, target, served) => {
  expect(await targetSeen(method, target)).toBe(`<${served}>`);
});

test.each([
  ["a user in it", "http://user:word@shop.example/x"],
  ["no host", "http:///x"],
  ["another scheme", "ftp://shop.example/x"],
])("a URL with %s stays the target that it is", async (_what, target) => {
  expect(await targetSeen("GET", target)).toBe(`<${target}>`);
});
