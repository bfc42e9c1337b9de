import type { IncomingMessage, ServerResponse } from "node:http";
import { beforeAll, describe, expect, test } from "vitest";
import { freePort } from "../../../shared/dev/free-port.ts";
import { eventually } from "../../../shared/dev/wait.ts";
import { listen } from "../../../shared/http/listen.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { useStack } from "../../fixtures/stack.ts";
import { openRaw, send, sendRaw } from "../../support/http.ts";
import { needs } from "../../support/needs.ts";
import { EXAMPLE_NAMES, type Nginx, startExample } from "../../support/nginx.ts";
import { READINGS, useNaiveServer } from "./naive-server.ts";

const ends = useEnds();
const naiveServer = useNaiveServer();

type Answer = (req: IncomingMessage, res: ServerResponse) => void;

/** Starts a server in place of a gateway. It records the paths of its requests, and counts its readiness checks. */
async function startFakeGateway(answer: Answer) {
  const paths: string[] = [];
  let checks = 0;
  const server = await listen((req, res) => {
    if (req.url === "/readyz") checks++;
    else paths.push(String(req.url));
    req.resume().on("end", () => answer(req, res));
  }, "127.0.0.1:0");
  ends.defer(() => server.close(0));
  return { address: server.address, paths, checks: () => checks };
}

const echo: Answer = (req, res) => res.end(JSON.stringify(req.headersDistinct));

const FORGED: readonly (readonly [string, readonly string[]])[] = [
  ["in X-Forwarded-For", ["X-Forwarded-For", "203.0.113.9"]],
  ["in two X-Forwarded-For", ["X-Forwarded-For", "203.0.113.9", "x-forwarded-for", "203.0.113.10"]],
  ["in a list with its own", ["X-Forwarded-For", "203.0.113.9, 127.0.0.1"]],
  ["in Forwarded", ["Forwarded", "for=203.0.113.9"]],
  ["in two Forwarded", ["Forwarded", "for=203.0.113.9", "FORWARDED", 'for="[2001:db8::1]"']],
  ["in both", ["X-Forwarded-For", "203.0.113.9", "Forwarded", "for=203.0.113.9"]],
  [
    "and names the proxy's header in Connection",
    ["X-Forwarded-For", "203.0.113.9", "Connection", "close, X-Forwarded-For"],
  ],
];

const HIDDEN = "POST /hidden HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
const post = (...headers: string[]) =>
  ["POST /a HTTP/1.1", "Host: x", "Connection: close", ...headers, "", ""].join("\r\n");
const chunked = `0\r\n\r\n${HIDDEN}`;

const SMUGGLING: readonly (readonly [string, string])[] = [
  ["a length and chunks", post(`Content-Length: ${chunked.length}`, "Transfer-Encoding: chunked") + chunked],
  ["chunks and a length", post("Transfer-Encoding: chunked", "Content-Length: 4") + chunked],
  ["two lengths", post("Content-Length: 0", `Content-Length: ${HIDDEN.length}`) + HIDDEN],
  ["a list of lengths", post(`Content-Length: 0, ${HIDDEN.length}`) + HIDDEN],
  ["a length with a sign", post("Content-Length: +0") + HIDDEN],
  ["an unknown encoding", post("Transfer-Encoding: xchunked", `Content-Length: ${HIDDEN.length}`) + HIDDEN],
  [
    "an encoding after a tab",
    post("Transfer-Encoding:\tchunked", `Content-Length: ${chunked.length}`) + chunked,
  ],
  [
    "a space before the colon",
    post("Transfer-Encoding : chunked", `Content-Length: ${chunked.length}`) + chunked,
  ],
  ["two encodings", post("Transfer-Encoding: identity", "Transfer-Encoding: chunked") + chunked],
  [
    "a bare line feed",
    post("X: y\nTransfer-Encoding: chunked", `Content-Length: ${chunked.length}`) + chunked,
  ],
];

const isHidden = (path: string) => path === "/hidden";

test.each(SMUGGLING)("%s hide a request that a naive server sees without a proxy", async (_, bytes) => {
  const servers = await Promise.all(READINGS.map(naiveServer));
  for (const { address } of servers) {
    const { socket } = openRaw(address, bytes);
    ends.defer(() => socket.destroy());
  }
  await eventually("a server sees it", () => servers.some(({ paths }) => paths.some(isHidden)));
});

describe.each(EXAMPLE_NAMES)("the %s of docs/operations/proxies", (name) => {
  describe("in front of a fleet", needs(name), () => {
    const stack = useStack(() => ({
      endpoints: [
        { path: "/hooks/open", job_id: 1, auth: "none" },
        { path: "/hooks/listed", job_id: 1, auth: "none", allow_ips: ["203.0.113.0/24"] },
      ],
      gateways: 2,
      postern: { http: { trusted_proxies: ["127.0.0.1"] } },
    }));
    let proxy: Nginx;
    beforeAll(async () => {
      const gateways = stack.gateways.map(({ address }) => address);
      proxy = await startExample(name, gateways, gateways);
      return proxy.stop;
    });

    test("sends every call to one gateway, once", async () => {
      const answers = await Promise.all(
        Array.from({ length: 40 }, (_, i) => send(proxy.address, { path: "/hooks/open", body: `body ${i}` })),
      );
      expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 202));
      const ids = answers.map((answer) => String(answer.json()["call_id"]));
      await eventually("every call has run", () => !stack.effectsOf(ids).includes(0));
      expect(stack.effectsOf(ids)).toEqual(ids.map(() => 1));
    });

    test.each(FORGED)("opens no endpoint to a client that forges an address %s", async (_, headers) => {
      const answer = await send(proxy.address, { path: "/hooks/listed", headers, body: "x" });
      expect([answer.status, answer.json()["code"]]).toEqual([403, "request.address_refused"]);
    });
  });

  describe("in front of other servers", needs(name), () => {
    test.each(FORGED)(
      "names only the client's real address, if the client forges one %s",
      async (_, headers) => {
        const { address } = await startFakeGateway(echo);
        const proxy = await startExample(name, [address, address], [address, address]);
        ends.defer(proxy.stop);
        const got = (await send(proxy.address, { path: "/", headers, body: "x" })).json();
        expect([got["x-forwarded-for"], got["forwarded"]]).toEqual([["127.0.0.1"], undefined]);
      },
    );

    test.each(READINGS)("passes no hidden request to a server that ends a body %s", async (reading) => {
      const server = await naiveServer(reading);
      const both = [server.address, server.address];
      const proxy = await startExample(name, both, both);
      ends.defer(proxy.stop);
      for (const [trick, bytes] of SMUGGLING) {
        await sendRaw(proxy.address, bytes);
        expect([trick, server.paths.filter(isHidden)]).toEqual([trick, []]);
      }
      expect((await send(proxy.address, { path: "/after", body: "x" })).status).toBe(200);
      expect(server.paths).toContain("/after");
    });

    test("sends the payment gateway's paths to it, and all others to the webhooks gateway", async () => {
      const [webhooks, x402] = [await startFakeGateway(echo), await startFakeGateway(echo)];
      const proxy = await startExample(
        name,
        [webhooks.address, webhooks.address],
        [x402.address, x402.address],
      );
      ends.defer(proxy.stop);
      for (const path of ["/hooks/a%2Fb?c=%20", "/x402/jobs/0/1"])
        await send(proxy.address, { path, body: "x" });
      expect([webhooks.paths, x402.paths]).toEqual([["/hooks/a%2Fb?c=%20"], ["/x402/jobs/0/1"]]);
    });

    test("tries another gateway if one refuses the connection", async () => {
      const server = await startFakeGateway(echo);
      const closed = `127.0.0.1:${await freePort()}`;
      const proxy = await startExample(name, [closed, server.address], [server.address, closed]);
      ends.defer(proxy.stop);
      const paths = Array.from({ length: 10 }, (_, i) => (i % 2 === 0 ? `/hooks/${i}` : `/x402/${i}`));
      for (const path of paths)
        expect([path, (await send(proxy.address, { path, body: "x" })).status]).toEqual([path, 200]);
      expect(server.paths).toEqual(paths);
    });

    test("passes on the 503 and Retry-After of gateways if all are unready", async () => {
      const server = await startFakeGateway((_, res) => res.writeHead(503, { "Retry-After": "7" }).end());
      const proxy = await startExample(
        name,
        [server.address, server.address],
        [server.address, server.address],
      );
      ends.defer(proxy.stop);
      // HAProxy has four servers. It has judged all of them once it checks them again.
      if (name === "haproxy")
        await eventually("HAProxy knows that no server is ready", () => server.checks() >= 8);
      const answer = await send(proxy.address, { path: "/hooks/a", body: "x" });
      expect([answer.status, answer.headers["retry-after"]]).toEqual([503, "7"]);
    });
  });
});
