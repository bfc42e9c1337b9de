import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { connect } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { readBody } from "../../../shared/http/body.ts";
import { listen } from "../../../shared/http/listen.ts";
import { sendProblem } from "../../../shared/http/problem.ts";
import { AppError } from "../../../shared/platform/errors/app-error.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { usePostern } from "../../fixtures/postern.ts";
import { asUser, useRedis } from "../../fixtures/redis.ts";
import { openRaw, sendRaw } from "../../support/http.ts";
import { onlyInLongRun } from "../../support/long-run.ts";
import { echo, type Handler, refuse, type TestServer, useServers } from "./listen/servers.ts";

const servers = useServers();
const redis = useRedis();
const ends = useEnds();

describe("400", () => {
  let server: TestServer;

  beforeAll(async () => {
    server = await servers.serve(echo);
  });

  const LENGTH_AND_CHUNKS = "Content-Length: 3\r\nTransfer-Encoding: chunked";

  test.each([
    ["is not HTTP", "nonsense\r\n\r\n"],
    ["names no HTTP version", "GET /\r\n\r\n"],
    ["names no HTTP version, and has a Host", "GET /\r\nHost: x\r\n\r\n"],
    ["has the version HTTP/0.9", "GET / HTTP/0.9\r\nHost: x\r\n\r\n"],
    ["has no Host", "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"],
    ["has two Hosts", "POST / HTTP/1.1\r\nHost: x\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"],
    ["has two Hosts and the version HTTP/1.0", "POST / HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n"],
    ["has two Hosts, and a URL as its target", "GET http://x/ HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"],
    ["has a URL as its target and no Host", "GET http://x/ HTTP/1.1\r\n\r\n"],
    ["names no transfer coding", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding:\r\n\r\n"],
    [
      "does not have chunked as its last coding",
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
    ["bytes that are not a request", "nonsense\r\n\r\n"],
    ["a request without a Host", "GET / HTTP/1.1\r\n\r\n"],
    ["a request with two Hosts", "GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n"],
  ])("a 400 for %s is a problem document", async (_what, bytes) => {
    const raw = await sendRaw(server.address, bytes, { enough: (soFar) => soFar.includes("}") });
    expect(raw).toContain("application/problem+json");
    expect(raw).toContain('"code":"request.malformed"');
  });
});

describe("408", () => {
  const UNFINISHED: [string, string, RegExp][] = [
    ["sends nothing", "", /HTTP\/1\.1 408 /],
    ["sends half a header", "POST / HTTP/1.1\r\nHo", /HTTP\/1\.1 408 /],
    ["sends half a body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc", /HTTP\/1\.1 408 /],
    [
      "sends half a chunk",
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nA\r\nabc",
      /HTTP\/1\.1 408 /,
    ],
    [
      "sends half of a body that is not read",
      "POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\nabc",
      /HTTP\/1\.1 404 /,
    ],
  ];

  let received: Promise<string>[];

  // These requests wait for the time-out, so all are sent at once.
  beforeAll(async () => {
    const started = await Promise.all(UNFINISHED.map(() => servers.serve(readOrRefuse)));
    received = UNFINISHED.map(([, bytes], i) => untilGone(started[i] as TestServer, bytes));
    for (const each of received) each.catch(() => {}); // the test of this request reports the error
  });

  const readOrRefuse: Handler = (req, res) => (req.url === "/unread" ? refuse : echo)(req, res);

  /** Returns what a peer that never ends the connection has received by the time the server has closed it. */
  async function untilGone(server: TestServer, bytes: string): Promise<string> {
    const sender = openRaw(server.address, bytes);
    await eventually("it is answered", () => /HTTP\/1\.1 \d+ /.test(sender.received()));
    await eventually("no connection is left", () => server.now === 0, 5000);
    await sender.sendUntilReset(bytes === "" ? "\r\n" : "x");
    return sender.received();
  }

  test.each(UNFINISHED.map(([what, , status], i) => [what, status, i] as const))(
    "a peer that %s gets one answer, and its connection is closed",
    async (_what, status, i) => {
      const answers = await received[i];
      expect(answers).toMatch(status);
      expect(answers?.match(/HTTP\/1\.1 \d+/g)).toHaveLength(1);
      expect(answers).toContain("application/problem+json");
    },
  );

  test("a body that did not arrive in time is refused at once, and again on a later read", async () => {
    const reasons: string[] = [];
    const server = await servers.serve((req, res) => {
      const asked = () => readBody(req, res, 1000).catch((error: AppError) => reasons.push(error.code));
      void asked()
        .then(asked)
        .then(() => sendProblem(req, res, new AppError("request.timed_out", { reason: "late" })));
    });
    const sender = openRaw(server.address, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabcde");
    await eventually("it is answered", () => sender.received().includes("HTTP/1.1 408"));
    sender.socket.destroy();
    expect(reasons).toEqual(["request.timed_out", "request.timed_out"]);
    expect(sender.received()).toMatch(/Connection: close/i);
  });
});

describe("417", () => {
  test("a request with an unsupported expectation is refused with 417 and a problem document", async () => {
    const server = await servers.serve(echo);
    const headers = "Host: x\r\nExpect: foo\r\nContent-Length: 3\r\n\r\nabc";
    const raw = await sendRaw(server.address, `POST / HTTP/1.1\r\n${headers}`);
    expect(raw).toMatch(/^HTTP\/1\.1 417/);
    expect(raw).toContain('"code":"request.expectation_failed"');
    expect(raw).toContain("application/problem+json");
  });
});

describe("431", () => {
  test("a request whose headers are too long is refused with 431 and a problem document", async () => {
    const server = await servers.serve(echo);
    const raw = await sendRaw(
      server.address,
      `POST / HTTP/1.1\r\nHost: x\r\nX-Long: ${"x".repeat(20_000)}\r\n\r\n`,
    );
    expect(raw).toMatch(/^HTTP\/1\.1 431/);
    expect(raw).toContain('"code":"request.headers_too_large"');
    expect(raw).toContain("application/problem+json");
  });

  test("all headers of a request below 16 KiB count, no matter how many they are", async () => {
    const server = await servers.serve(echo);
    const fillers = "a:\r\n".repeat(3900);
    const raw = await sendRaw(
      server.address,
      `POST / HTTP/1.1\r\nHost: x\r\n${fillers}Connection: close\r\nContent-Length: 4\r\n\r\nbody`,
    );
    expect(raw).toMatch(/^HTTP\/1\.1 200 [\s\S]*\r\n\r\nbody/);
  });

  onlyInLongRun(() => {
    const postern = usePostern(() => ({
      postern: { drain_secs: 0, redis: { url: redis.url } },
      webhooks: { endpoints: [{ path: "/a", job_id: 1, auth: "none" }] },
    }));

    test("a gateway limits headers to 16 KiB, independent of Node's own limit", async () => {
      const args = ["webhooks", "--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"];
      const gateway = postern.start(args, { env: { NODE_OPTIONS: "--max-http-header-size=65536" } });
      const { address } = await gateway.waitForEvent("service.started");
      const raw = await sendRaw(
        String(address),
        `GET / HTTP/1.1\r\nHost: x\r\nX: ${"x".repeat(16_400)}\r\n\r\n`,
      );
      expect(raw).toMatch(/^HTTP\/1\.1 431/);
    });
  });
});

describe("501", () => {
  const withCodings = (codings: string, rest = "") =>
    `POST / HTTP/1.1\r\nHost: x\r\n${codings}\r\n${rest}\r\n3\r\nabc\r\n0\r\n\r\n`;

  test.each([
    ["another coding before chunks", "Transfer-Encoding: gzip, chunked"],
    ["another coding in a separate header", "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked"],
    ["an unknown coding", "Transfer-Encoding: x-new, Chunked"],
  ])(
    "a request with %s is refused with 501 and a problem document, and its connection ends",
    async (_what, codings) => {
      const server = await servers.serve(echo);
      const raw = await sendRaw(server.address, withCodings(codings));
      expect(raw).toMatch(/^HTTP\/1\.1 501/);
      expect(raw).toMatch(/Connection: close/i);
      expect(raw).toContain("application/problem+json");
      expect(raw).toContain('"code":"request.transfer_coding_unsupported"');
    },
  );

  test("a body in an unknown transfer coding is refused without 100 Continue, and no handler gets its request", async () => {
    const handled: string[] = [];
    const server = await servers.serve((req, res) => {
      handled.push(`${req.method} ${req.url}`);
      echo(req, res);
    });
    const asks = withCodings("Transfer-Encoding: gzip, chunked", "Expect: 100-continue\r\n");
    expect(await sendRaw(server.address, asks)).toMatch(/^HTTP\/1\.1 501/);
    expect(handled).toEqual([]);
  });

  test("bytes after a body in an unknown transfer coding are not read as a request", async () => {
    const server = await servers.serve(echo);
    const hidden = "POST /hidden HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
    const raw = await sendRaw(server.address, withCodings("Transfer-Encoding: gzip, chunked") + hidden);
    expect(raw.match(/HTTP\/1\.1 /g)).toHaveLength(1);
  });

  test("the transfer coding chunked is accepted in upper and lower case", async () => {
    const server = await servers.serve(echo);
    const { socket, received } = openRaw(server.address, withCodings("Transfer-Encoding: CHUNKED"));
    await expect.poll(received).toMatch(/^HTTP\/1\.1 200[\s\S]*abc/);
    socket.destroy();
  });
});

describe("keep-alive", () => {
  const postern = usePostern(() => ({
    postern: { drain_secs: 0, redis: { url: asUser(redis.url, "webhooks") }, http: { keep_alive_secs: 1 } },
    webhooks: { endpoints: [{ path: "/a", job_id: 1, auth: "none" }] },
  }));

  const REQUEST = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

  test("an idle connection outlives the time limit of a request, serves another one, and is closed after keepAliveMs", async () => {
    const keepAliveMs = 1200;
    const options = { requestTimeoutMs: 200, keepAliveMs };
    const server = await listen((_req, res) => res.end("here"), "127.0.0.1:0", options);
    ends.defer(() => server.close(0));
    const idle = openRaw(server.address, REQUEST);
    const answers = () => idle.received().match(/HTTP\/1\.1 200 /g)?.length ?? 0;
    await eventually("the first is answered", () => answers() === 1);
    // A second connection shows when the time for a request is over.
    expect(
      await sendRaw(server.address, "GET / HTTP/1.1\r\nHo", { enough: (soFar) => soFar !== "" }),
    ).toMatch(/^HTTP\/1\.1 408 /);
    idle.socket.write(REQUEST);
    await eventually("the second is answered", () => answers() === 2);
    const answeredAt = performance.now();
    await once(idle.socket, "end");
    const idleMs = performance.now() - answeredAt;
    expect(idleMs).toBeGreaterThan(keepAliveMs - 200);
    expect(idleMs).toBeLessThan(keepAliveMs + 3000);
  });

  test("a gateway announces how long it keeps an idle connection, and closes it after http.keep_alive_secs", async () => {
    const gateway = postern.start([
      ...["webhooks", "--bind-address", "127.0.0.1:0", "--ops-address", "127.0.0.1:0"],
    ]);
    const { address } = await gateway.waitForEvent("service.started");
    const idle = openRaw(String(address), "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
    await once(idle.socket, "end");
    expect(idle.received()).toMatch(/^HTTP\/1\.1 200 .*^Keep-Alive: timeout=1\r$/ms);
  });
});

describe("target", () => {
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
});

describe("unread", () => {
  /** Bytes that the operating system delivers at once. */
  const CHUNK_BYTES = 64 * 1024;
  const BODY_BYTES = 32 * 1024 * 1024;
  /** Turns of the event loop after which a connection that is still read would have delivered more. */
  const TURNS = 20;

  test("a connection buffers one chunk of a body that is not read, independent of Node's own high-water mark", async () => {
    let asked: IncomingMessage | undefined;
    const server = await servers.serve((req) => {
      asked = req;
    });
    const [host, port] = server.address.split(":");
    const client = connect(Number(port), host);
    client.on("error", () => {});
    ends.defer(() => client.destroy());
    await once(client, "connect");
    client.write(`POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${BODY_BYTES}\r\n\r\n`);
    client.write(Buffer.alloc(BODY_BYTES));
    await eventually("some of it has come", () => (asked?.readableLength ?? 0) > 0);
    for (let turn = 0; turn < TURNS; turn++) await nextTurn();
    const { socket, readableLength = 0 } = asked as IncomingMessage;
    expect(readableLength + socket.readableLength).toBeLessThanOrEqual(CHUNK_BYTES);
    expect(client.writableLength).toBeGreaterThan(0);
  });
});
