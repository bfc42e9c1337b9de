import { Agent, type IncomingMessage, type ServerResponse } from "node:http";
import { afterEach, describe, expect, test } from "vitest";
import { eventually } from "../../shared/dev/wait.ts";
import { AppError, toAppError } from "../../shared/errors/app-error.ts";
import { readBody } from "../../shared/http/body.ts";
import { type Listening, listen } from "../../shared/http/listen.ts";
import { sendProblem } from "../../shared/http/problem.ts";
import { openRaw, send, sendRaw } from "../support/http.ts";

const open: Listening[] = [];

afterEach(async () => {
  for (const server of open.splice(0)) await server.close(0);
});

type Handler = (req: IncomingMessage, res: ServerResponse) => void;
type Connections = { now: number; seen: Set<unknown> };

/** A server that counts the connections it owns. */
async function serve(handler: Handler, requestTimeoutMs = 300): Promise<Listening & Connections> {
  const connections: Connections = { now: 0, seen: new Set() };
  const counted: Handler = (req, res) => {
    if (!connections.seen.has(req.socket)) {
      connections.seen.add(req.socket);
      connections.now += 1;
      req.socket.once("close", () => {
        connections.now -= 1;
      });
    }
    handler(req, res);
  };
  const server = await listen(counted, "127.0.0.1:0", { requestTimeoutMs });
  open.push(server);
  return Object.assign(connections, server);
}

const refuse: Handler = (req, res) =>
  sendProblem(req, res, new AppError("request.not_found", { reason: "nothing here" }));

const echo: Handler = (req, res) => {
  readBody(req, res, 1000).then(
    (body) => res.end(body),
    (thrown: unknown) => sendProblem(req, res, toAppError(thrown)),
  );
};

describe("a request that did not arrive in time", () => {
  test.each([
    ["silence", ""],
    ["half a header", "POST / HTTP/1.1\r\nHo"],
    ["half a body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc"],
    ["half a chunk", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nA\r\nabc"],
    ["a body nobody reads", "POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\nabc"],
  ])("%s: one answer, then the connection is gone, though its peer never ends it", async (_what, bytes) => {
    const server = await serve((req, res) => (req.url === "/unread" ? refuse : echo)(req, res));
    const sender = openRaw(server.address, bytes);
    await eventually("it is answered", () => /HTTP\/1\.1 40[48] /.test(sender.received()));
    await eventually("no connection is left", () => server.now === 0, 5000);
    await sender.sendUntilReset(bytes === "" ? "\r\n" : "x");
    expect(sender.received().match(/HTTP\/1\.1 \d+/g)).toHaveLength(1);
    expect(sender.received()).toContain("application/problem+json");
  });

  test("its body is refused at once, and again where it is asked for later", async () => {
    const reasons: string[] = [];
    const server = await serve((req, res) => {
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

describe("a refused request without a body keeps its connection", () => {
  test.each(["GET", "POST"])("%s", async (method) => {
    const server = await serve(refuse);
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    for (let i = 0; i < 3; i++) {
      const answer = await send(server.address, {
        method,
        path: "/",
        agent,
        headers: ["X-Ignored", "1"],
      });
      expect([answer.status, answer.headers["connection"]]).toEqual([404, "keep-alive"]);
    }
    agent.destroy();
    expect(server.seen.size).toBe(1);
  });

  test("neither Content-Length nor Transfer-Encoding", async () => {
    const server = await serve(refuse);
    const bare = "POST / HTTP/1.1\r\nHost: x\r\n\r\n";
    const raw = await sendRaw(server.address, bare + bare, {
      enough: (soFar) => (soFar.match(/nothing here|"status":404/g) ?? []).length >= 2,
    });
    expect(raw).not.toMatch(/Connection: close/i);
  });
});

test("417: an expectation that cannot be met, as a problem document", async () => {
  const server = await serve(echo);
  const headers = "Host: x\r\nExpect: foo\r\nContent-Length: 3\r\n\r\nabc";
  const raw = await sendRaw(server.address, `POST / HTTP/1.1\r\n${headers}`);
  expect(raw).toMatch(/^HTTP\/1\.1 417/);
  expect(raw).toContain('"code":"request.expectation_failed"');
  expect(raw).toContain("application/problem+json");
});

describe("pipelined requests", () => {
  const call = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n";
  const statuses = (raw: string) => raw.match(/HTTP\/1\.1 \d+/g)?.map((line) => line.slice(9));

  async function slow() {
    const held: (() => void)[] = [];
    const refused: AppError[] = [];
    const server = await serve((req, res) => {
      readBody(req, res, 1000).then(
        (body) => held.push(() => res.end(body)),
        (thrown: unknown) => {
          refused.push(toAppError(thrown));
          sendProblem(req, res, toAppError(thrown));
        },
      );
    });
    return { server, held, refused };
  }

  test("what is owed is answered before the garbage that follows it", async () => {
    const { server, held } = await slow();
    const sender = openRaw(server.address, `${call}a${call}bgarbage\r\n\r\n`);
    await eventually("both are held", () => held.length === 2);
    expect(sender.received()).toBe("");
    for (const answer of held) answer();
    await eventually("all is answered", () => statuses(sender.received())?.length === 3);
    sender.socket.destroy();
    expect(statuses(sender.received())).toEqual(["200", "200", "400"]);
  });

  test("what is owed is answered before the request behind it that does not arrive", async () => {
    const { server, held, refused } = await slow();
    const sender = openRaw(server.address, `${call}a${call}`);
    await eventually("the second is given up", () => refused.length === 1);
    expect(sender.received()).toBe("");
    held[0]?.();
    await eventually("both are answered", () => statuses(sender.received())?.length === 2);
    sender.socket.destroy();
    expect(statuses(sender.received())).toEqual(["200", "408"]);
  });
});
