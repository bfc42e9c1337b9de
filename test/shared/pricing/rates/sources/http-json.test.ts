import type { RequestListener } from "node:http";
import { afterEach, expect, test } from "vitest";
import { textAt } from "../../../../../shared/pricing/rates/sources/http-json.ts";
import { readRateOnce } from "../../../../support/rate-tokens.ts";
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
  return readRateOnce(source, { ca: CERTIFICATE, timeoutMs });
}

const at = (value: string) => says(`{"data":[{"price":${value}}]}`);

test.each([
  ["3200.50", "3200.5"],
  ['"3200.123456789012345678901"', "3200.123456789012345678901"],
  ["3200.1234567890123456789", "3200.1234567890123456789"],
  ["3.2e3", "3200"],
  ["32E-1", "3.2"],
])("%s in a JSON document is read as the rate %s", async (value, rate) => {
  expect(await read(at(value))).toEqual({
    source: expect.stringMatching(/^http_json localhost:/),
    value: rate,
  });
});

test.each([
  ["zero", at("0"), /must be a number above 0/],
  ["a negative number", at("-3200"), /must be a number above 0/],
  ["NaN as text", at('"NaN"'), /must be a number above 0/],
  ["an exponent that would fill the memory", at("1e999999999"), /must be a number above 0/],
  ["a boolean", at("true"), /no number at \/data\/0\/price/],
  ["a document without the number", says('{"data":[]}'), /no number at/],
  ["what is not JSON", says("<html>3200</html>"), /no number at/],
  ["a status that is not 200", says('{"data":[{"price":1}]}', 203), /status 203/],
  [
    "a body over 64 KiB",
    says(`{"data":[{"price":1}],"x":"${"x".repeat(70_000)}"}`),
    /longer than 65536 bytes/,
  ],
  ["by breaking the connection", (req) => req.socket.destroy(), /the request failed/],
] as [string, RequestListener, RegExp][])(
  "a JSON source that answers %s gives no rate",
  async (_what, answer, reason) => {
    const verdict = await read(answer);
    expect([verdict.value, verdict.reason]).toEqual([undefined, expect.stringMatching(reason)]);
  },
);

test.each([
  [
    "a body without end",
    (_req, res) => {
      res.write("[");
    },
  ],
  ["nothing", () => {}],
] as [string, RequestListener][])(
  "a JSON source that answers %s gives no rate after its timeout",
  async (_what, answer) => {
    const verdict = await read(answer, {}, 300);
    expect([verdict.value, verdict.reason]).toEqual([undefined, "no answer within 300 ms"]);
  },
);

test("a JSON source that redirects gives no rate, and the redirect is not followed", async () => {
  const target = await serve(at("3200"));
  const verdict = await read((_req, res) => res.writeHead(302, { location: `${target.url}/rate` }).end());
  expect(verdict.reason).toBe("status 302");
  expect(target.requests).toEqual([]);
});

test("a JSON source with an untrusted certificate gives no rate, and gets no request", async () => {
  const { url, requests } = await serve(at("3200"));
  const source = { source: "http_json", url, pointer: "/data/0/price" };
  expect((await readRateOnce(source)).reason).toMatch(/the request failed \((DEPTH|SELF)/);
  expect(requests).toEqual([]);
});

test("the headers of a JSON source are sent and never shown, and neither are its URL's path and query", async () => {
  const server = await serve(says("{}"));
  const verdict = await readRateOnce(
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

const document =
  '{"a":{"b":[10, 1.230e-2, "4.50"]},"":{"":1},"a/b":2,"m~n":3,"~1":6,"s":"x 12 \\" 9","k9":7,"o":{},"t":true,"n":null}';
const none = [
  "/a/b/3",
  "/a/b/00",
  "/a/b/-",
  "/a/b/length",
  "/a",
  "",
  "/o",
  "/t",
  "/n",
  "/missing",
  "/__proto__",
  "/o/toString",
];
const found: [string, string][] = [
  ["/a/b/0", "10"],
  ["/a/b/1", "1.230e-2"],
  ["/a/b/2", "4.50"],
  ["//", "1"],
  ["/a~1b", "2"],
  ["/m~0n", "3"],
  ["/~01", "6"],
  ["/s", 'x 12 " 9'],
  ["/k9", "7"],
];
test.each(found)("the JSON pointer %j (RFC 6901) finds %j", (pointer, text) => {
  expect(textAt(document, pointer)).toBe(text);
});

test.each(none)("the JSON pointer %j (RFC 6901) finds no number", (pointer) => {
  expect(textAt(document, pointer)).toBeUndefined();
});

test("a JSON pointer returns a number as it is written, with all its digits", () => {
  expect(textAt("3200.000000000000000000000000000000001", "")).toBe("3200.000000000000000000000000000000001");
  expect(textAt('{"a":', "/a")).toBeUndefined();
  expect(textAt("NaN", "")).toBeUndefined();
  expect(textAt("[01]", "/0")).toBeUndefined();
});
