import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { createServer as createTlsServer } from "node:tls";
import { expect, test } from "vitest";
import { createHttpClient } from "../../../shared/http/client.ts";
import { fetch } from "../../../shared/http/fetch.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { TEST_TLS } from "../../support/tls.ts";

const ends = useEnds();

const CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n";
/**
 * Request at which the first connection is reused. It becomes free one turn after its response, so an immediate request
 * opens a second one.
 */
const REUSED = 2;

const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

type Converse = (socket: Socket, request: number) => void;
type Setup = { tls?: boolean; answerBytesMax?: number };

/** Creates a client of a server that answers each request with `converse`. */
async function clientOf(converse: Converse, { tls = false, answerBytesMax = 1024 * 1024 }: Setup = {}) {
  const sockets: Socket[] = [];
  let requests = 0;
  const onSocket = (socket: Socket): void => {
    sockets.push(socket);
    ends.defer(() => void socket.destroy());
    socket.on("error", () => {});
    socket.on("data", () => converse(socket, ++requests));
  };
  const server = tls ? createTlsServer(TEST_TLS, onSocket) : createServer(onSocket);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  ends.defer(() => void server.close());
  const base = new URL(`http${tls ? "s" : ""}://localhost:${(server.address() as AddressInfo).port}`);
  const client = createHttpClient({ base, headers: {}, answerBytesMax, ca: TEST_TLS.cert });
  ends.defer(client.close);
  const post = async (timeoutMs = 5000): Promise<string> => {
    const exchange = client.exchange({ path: "/", body: "hi", timeoutMs });
    return exchange.then(
      ({ status, text }) => `${status} ${text}`,
      (error: Error) => `${error.name}: ${error.message}`,
    );
  };
  return { base, post, sockets };
}

const says = (text: string) => clientOf((socket) => socket.write(text));

/** Sends a text so that the client reads it in these pieces. Each piece is acknowledged before the next one is sent. */
async function inPieces(socket: Socket, pieces: readonly string[]): Promise<void> {
  socket.setNoDelay(true);
  for (const piece of pieces) {
    await new Promise((sent) => socket.write(piece, sent));
    await new Promise(setImmediate);
  }
}

const EXTRAS = [
  ["unasked 100", CONTINUE],
  ["100 without a reason", "HTTP/1.1 100\r\n\r\n"],
  ["100 of HTTP/1.0", "HTTP/1.0 100 Continue\r\n\r\n"],
  ["100 whose lines end with a line feed", "HTTP/1.1 100 Continue\n\n"],
  ["102 with header fields", "HTTP/1.1 102 Processing\r\nA: b\r\nContent-Length: 5\r\n\r\n"],
  [
    "103, 100 and a status of its own",
    `HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n${CONTINUE}HTTP/1.1 199 x\r\n\r\n`,
  ],
  ["16 of them", CONTINUE.repeat(16)],
  ["one of 16 KiB", `HTTP/1.1 100 Continue\r\nA: ${"x".repeat(16 * 1024 - 30)}\r\n\r\n`],
] as const;

test.each(EXTRAS)("a response after %s is returned", async (_, extra) => {
  const { post, sockets } = await says(`${extra}${OK}`);
  for (const _ of Array(4)) expect(await post()).toBe("200 ok");
  expect(sockets.length).toBeLessThanOrEqual(REUSED);
});

test.each([
  ["17 informational responses", CONTINUE.repeat(17)],
  ["one of more than 16 KiB", `HTTP/1.1 100 Continue\r\nA: ${"x".repeat(16 * 1024 - 29)}\r\n\r\n`],
  ["two of more than 16 KiB", `HTTP/1.1 103 Early Hints\r\nA: ${"x".repeat(9000)}\r\n\r\n`.repeat(2)],
  ["one that goes on after 16 KiB", `HTTP/1.1 100 Continue\r\nA: ${"x".repeat(17 * 1024)}`],
])("a response after %s is an error", async (_, extra) => {
  const { post } = await says(`${extra}${OK}`);
  expect(await post()).toBe("Error: too many informational responses");
});

test.each([
  [
    "101",
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n${OK}`,
    /bad upgrade/,
  ],
  [
    "an informational response followed by bytes that are not HTTP",
    `${CONTINUE}220 mail.example.com ESMTP\r\n`,
    /HTTP\/1.1 protocol/,
  ],
  ["a status line that is not of HTTP/1", "HTTP/3.0 100 Continue\r\n\r\n", /HTTP\/1.1 protocol/],
])("%s is an error", async (_, text, failure) => {
  expect(await (await says(text)).post()).toMatch(failure);
});

test("endless informational responses fail at the deadline of the exchange", async () => {
  const { post } = await clientOf((socket) => socket.write(`${CONTINUE}HTTP/1.1 1`));
  expect(await post(200)).toMatch(/^TimeoutError/);
});

test("a connection that ends after an informational response gives an error", async () => {
  const { post } = await clientOf((socket) => socket.end(CONTINUE));
  expect(await post()).toMatch(/other side closed/);
});

test.each([false, true])("a head that is split at any position is read completely (TLS: %s)", async (tls) => {
  const text = `${CONTINUE}HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n${OK}`;
  const cuts = [...text].map((_, at) => [text.slice(0, at), text.slice(at)].filter((piece) => piece !== ""));
  const { post, sockets } = await clientOf(
    (socket, request) => void inPieces(socket, [...cuts, [...text]][request - 1] ?? []),
    { tls },
  );
  for (const _ of [...cuts, "byte by byte"]) expect(await post()).toBe("200 ok");
  expect(sockets.length).toBeLessThanOrEqual(REUSED);
});

const BODY = `${CONTINUE}${OK}`;
const HEX = BODY.length.toString(16);

test.each([
  ["by its length", `HTTP/1.1 200 OK\r\nContent-Length: ${BODY.length}\r\n\r\n`, BODY, ""],
  [
    "in a chunk",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    `${HEX}\r\n${BODY}\r\n`,
    "0\r\n\r\n",
  ],
  ["until the connection closes", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", BODY, "close"],
])("a body %s that contains an informational response is read unchanged", async (_, head, body, end) => {
  const { base, sockets } = await clientOf((socket) => socket.write(`${CONTINUE}${head}`));
  const response = await fetch(base, { method: "POST", body: "hi", redirect: "error" });
  // The head has been read, so the body arrives separately.
  sockets[0]?.write(body);
  if (end === "close") sockets[0]?.end();
  else sockets[0]?.write(end);
  expect(await response.body.text()).toBe(BODY);
});

test("informational responses are counted separately for each response of a connection", async () => {
  const { post, sockets } = await says(`${CONTINUE.repeat(10)}${OK}`);
  for (const _ of Array(5)) expect(await post()).toBe("200 ok");
  expect(sockets.length).toBeLessThanOrEqual(REUSED);
});

test("bytes after a response are not read as the response to the next request", async () => {
  const { post } = await clientOf((socket, request) =>
    socket.write(request === 1 ? `${OK}${CONTINUE}HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged` : OK),
  );
  expect([await post(), await post()]).toEqual(["200 ok", "200 ok"]);
});
