import { beforeAll, expect, test } from "vitest";
import { eventually } from "../../../../shared/dev/wait.ts";
import { AppError } from "../../../../shared/errors/app-error.ts";
import { readBody } from "../../../../shared/http/body.ts";
import { sendProblem } from "../../../../shared/http/problem.ts";
import { openRaw } from "../../../support/http.ts";
import { echo, type Handler, refuse, type TestServer, useServers } from "./servers.ts";

const servers = useServers();

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
    "sends half of a body that nobody reads",
    "POST /unread HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\nabc",
    /HTTP\/1\.1 404 /,
  ],
];

let received: Promise<string>[];

// Each of them waits for the time-out, so they are sent at once.
beforeAll(async () => {
  const started = await Promise.all(UNFINISHED.map(() => servers.serve(readOrRefuse)));
  received = UNFINISHED.map(([, bytes], i) => untilGone(started[i] as TestServer, bytes));
  for (const each of received) each.catch(() => {}); // its test reports it
});

const readOrRefuse: Handler = (req, res) => (req.url === "/unread" ? refuse : echo)(req, res);

/** What a peer that never ends the connection has received when the server has. */
async function untilGone(server: TestServer, bytes: string): Promise<string> {
  const sender = openRaw(server.address, bytes);
  await eventually("it is answered", () => /HTTP\/1\.1 \d+ /.test(sender.received()));
  await eventually("no connection is left", () => server.now === 0, 5000);
  await sender.sendUntilReset(bytes === "" ? "\r\n" : "x");
  return sender.received();
}

test.each(UNFINISHED.map(([what, , status], i) => [what, status, i] as const))(
  "a peer that %s gets one answer and loses its connection",
  async (_what, status, i) => {
    const answers = await received[i];
    expect(answers).toMatch(status);
    expect(answers?.match(/HTTP\/1\.1 \d+/g)).toHaveLength(1);
    expect(answers).toContain("application/problem+json");
  },
);

test("a body that did not arrive in time is refused at once, and again if it is asked for later", async () => {
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
