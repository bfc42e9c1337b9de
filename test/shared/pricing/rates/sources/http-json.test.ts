import type { RequestListener } from "node:http";
import { afterEach, describe, expect, test } from "vitest";
import { judge } from "../../../../support/rate-tokens.ts";
import { CERTIFICATE, startHttps } from "./https-source.ts";

type Server = Awaited<ReturnType<typeof startHttps>>;
const running: Server[] = [];
afterEach(() => {
  for (const server of running.splice(0)) server.stop();
});

async function serve(answer: RequestListener): Promise<Server> {
  const server = await startHttps(answer);
  running.push(server);
  return server;
}

const says = (text: string, status = 200): RequestListener => {
  return (_req, res) => res.writeHead(status, { "content-type": "application/json" }).end(text);
};

async function read(answer: RequestListener, more: object = {}, timeoutMs = 5000) {
  const { url } = await serve(answer);
  const source = { source: "http_json", url: `${url}/rate`, pointer: "/data/0/price", ...more };
  return judge(source, { ca: CERTIFICATE, timeoutMs });
}

const at = (value: string) => says(`{"data":[{"price":${value}}]}`);

test.each([
  ["3200.50", "3200.5"],
  ['"3200.123456789012345678901"', "3200.123456789012345678901"],
  ["3200.1234567890123456789", "3200.1234567890123456789"],
  ["3.2e3", "3200"],
  ["32E-1", "3.2"],
])("%s in the document is %s", async (value, rate) => {
  expect(await read(at(value))).toEqual({
    source: expect.stringMatching(/^http_json localhost:/),
    value: rate,
  });
});

describe("there is no rate from", () => {
  test.each([
    ["zero", at("0"), /no number above 0/],
    ["a negative number", at("-3200"), /no number above 0/],
    ["NaN as text", at('"NaN"'), /no number above 0/],
    ["an exponent that would fill the memory", at("1e999999999"), /no number above 0/],
    ["a boolean", at("true"), /there is no number at \/data\/0\/price/],
    ["a document without it", says('{"data":[]}'), /there is no number/],
    ["what is not JSON", says("<html>3200</html>"), /there is no number/],
    ["a status that is not 200", says('{"data":[{"price":1}]}', 203), /status 203/],
    ["a body over 64 KiB", says(`{"data":[{"price":1}],"x":"${"x".repeat(70_000)}"}`), /over 65536 bytes/],
    [
      "a body without end",
      (_req, res) => {
        res.write("[");
      },
      /no answer within 300 ms/,
    ],
    ["silence", () => {}, /no answer within 300 ms/],
    ["a connection that breaks", (req) => req.socket.destroy(), /the exchange failed/],
  ] as [string, RequestListener, RegExp][])("%s", async (_what, answer, reason) => {
    const verdict = await read(answer, {}, 300);
    expect([verdict.value, verdict.reason]).toEqual([undefined, expect.stringMatching(reason)]);
  });

  test("a redirect, which nobody follows", async () => {
    const target = await serve(at("3200"));
    const verdict = await read((_req, res) => res.writeHead(302, { location: `${target.url}/rate` }).end());
    expect(verdict.reason).toBe("status 302");
    expect(target.requests).toEqual([]);
  });

  test("a server whose certificate nobody vouches for", async () => {
    const { url, requests } = await serve(at("3200"));
    const source = { source: "http_json", url, pointer: "/data/0/price" };
    expect((await judge(source)).reason).toMatch(/the exchange failed \((DEPTH|SELF)/);
    expect(requests).toEqual([]);
  });
});

test("headers go along and are told to nobody, no more than the URL's path and query", async () => {
  const server = await serve(says("{}"));
  const verdict = await judge(
    {
      source: "http_json",
      url: `${server.url}/canary-path?key=canary-query`,
      pointer: "/data",
      headers: { Authorization: "Bearer canary-header" },
    },
    { ca: CERTIFICATE },
  );
  expect(server.requests[0]?.headers["authorization"]).toBe("Bearer canary-header");
  expect(server.requests[0]?.url).toBe("/canary-path?key=canary-query");
  expect(JSON.stringify(verdict)).not.toContain("canary");
});
