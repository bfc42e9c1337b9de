import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import { eventually } from "../../../shared/dev/wait.ts";
import { createHttpClient } from "../../../shared/http/client.ts";
import { useEnds } from "../../fixtures/ends.ts";

const ends = useEnds();

const headOf = (length: number) => `HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\n\r\n`;
const OK = `${headOf(2)}ok`;

/** A client of a server that does this with each request on a connection, and the connections with their requests. */
async function clientOf(answer: (socket: Socket, request: number) => void) {
  const connections: { socket: Socket; requests: number }[] = [];
  const server = createServer((socket) => {
    const connection = { socket, requests: 0 };
    connections.push(connection);
    ends.defer(() => void socket.destroy());
    socket.on("error", () => {});
    socket.on("data", () => answer(socket, ++connection.requests));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  ends.defer(() => void server.close());
  const base = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const client = createHttpClient({ base, headers: {}, answerBytesMax: 5000 });
  ends.defer(client.close);
  const sent = () => connections.reduce((sum, { requests }) => sum + requests, 0);
  const exchange = (body: string | undefined, signal?: AbortSignal, timeoutMs = 30_000) =>
    client.exchange({ path: "/", body, timeoutMs, signal });
  return { exchange, sent, connections };
}

test.each([
  ["POST", "{}"],
  ["GET", undefined],
] as const)(
  "a %s on a kept connection that closes at that moment fails, and is not sent again",
  async (_method, body) => {
    const { exchange, sent, connections } = await clientOf((socket, request) => {
      if (request === 1) socket.write(OK);
      else socket.destroy();
    });
    let requests = 0;
    await eventually("the first connection is used again", async () => {
      requests += 1;
      const isAnswered = await exchange(body).then(
        () => true,
        () => false,
      );
      return !isAnswered;
    });
    expect(connections[0]?.requests).toBe(2);
    expect(sent()).toBe(requests);
  },
);

const BROKEN: [string, (socket: Socket) => void][] = [
  ["shorter than its Content-Length", (socket) => socket.end(`${headOf(20)}ok`)],
  [
    "shorter, and announces the end",
    (socket) => socket.end(headOf(20).replace("\r\n", "\r\nConnection: close\r\n")),
  ],
  [
    "cut off between two chunks",
    (socket) => socket.end("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"),
  ],
  ["only informational", (socket) => socket.end("HTTP/1.1 103 Early Hints\r\n\r\n")],
];

test.each(BROKEN)("an answer that is %s is no answer", async (_how, answer) => {
  const { exchange, sent } = await clientOf(answer);
  await expect(exchange("{}")).rejects.toThrow();
  expect(sent()).toBe(1);
});

test("an answer at the limit is read, and one beyond it has a status but no text", async () => {
  let length = 5000;
  const { exchange } = await clientOf((socket) => socket.write(headOf(length) + "x".repeat(length)));
  expect(await exchange("{}")).toMatchObject({ status: 200, text: "x".repeat(5000) });
  length = 5001;
  expect(await exchange("{}")).toMatchObject({ status: 200, text: undefined });
});

test("a deadline ends an answer that has begun, and an abort one that has not; both close the connection", async () => {
  const { exchange, connections } = await clientOf((socket, request) => {
    if (connections.length === 1 && request === 1) socket.write(`${headOf(20)}ok`);
  });
  await expect(exchange("{}", undefined, 100)).rejects.toMatchObject({ name: "TimeoutError" });
  const unwanted = new AbortController();
  const reply = exchange("{}", unwanted.signal);
  await eventually("it is sent", () => connections.filter(({ requests }) => requests > 0).length === 2);
  unwanted.abort(new Error("unwanted"));
  await expect(reply).rejects.toThrow("unwanted");
  const used = connections.filter(({ requests }) => requests > 0);
  await eventually("both are closed", () => used.every(({ socket }) => socket.closed));
});

test("an exchange that is aborted before its connection is there is never sent", async () => {
  const { exchange, sent } = await clientOf((socket) => socket.write(OK));
  const unwanted = new AbortController();
  const reply = exchange("{}", unwanted.signal);
  unwanted.abort(new Error("unwanted"));
  await expect(reply).rejects.toThrow("unwanted");
  await exchange("{}");
  expect(sent()).toBe(1);
});
