import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { Worker } from "node:worker_threads";
import { expect, test } from "vitest";
import { Hold } from "../../../services/producer/consumer/hold.ts";
import { createHttpInject } from "../../../services/producer/http-runner.ts";
import { parseJobCall } from "../../../shared/call/job-call.ts";
import { freePort } from "../../../shared/dev/free-port.ts";
import { toAppError } from "../../../shared/platform/errors/app-error.ts";
import { systemClock } from "../../../shared/platform/time/clock.ts";
import { useEnds } from "../../fixtures/ends.ts";
import { aCall } from "../../fixtures/producer.ts";
import { sample } from "../../support/long-run.ts";

const ends = useEnds();

/** Returns a function that injects a call at this URL and resolves with "injected" or the error's code. */
function injectionsTo(url: string, { timeoutMs = 5000, metadata = {} } = {}): () => Promise<string> {
  const { inject, close } = createHttpInject({
    url,
    secret: undefined,
    timeoutMs,
    timeoutMsOfJob: new Map(),
    connections: 1,
    resultBytesMax: 256 * 1024,
    clock: systemClock,
  });
  ends.defer(close);
  return () => {
    const outcome = inject(parseJobCall(aCall({ metadata })), new Hold());
    return outcome.then(
      () => "injected",
      (error: unknown) => toAppError(error).code,
    );
  };
}

/** Starts a server that handles each connection with `converse`. */
async function serve(converse: (socket: Socket) => void): Promise<{ port: number; server: Server }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    converse(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  ends.defer(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, server };
}

const OK = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

test("a runner whose port refuses connections is unreachable", async () => {
  expect(await injectionsTo(`http://127.0.0.1:${await freePort()}`)()).toBe("runner.unreachable");
});

test("a runner that reads the request and closes the connection without an answer is disconnected", async () => {
  const { port } = await serve((socket) => socket.once("data", () => socket.destroy()));
  expect(await injectionsTo(`http://127.0.0.1:${port}`)()).toBe("runner.disconnected");
});

test("a runner that answers with something other than HTTP is disconnected", async () => {
  const { port } = await serve((socket) => socket.end("220 mail.example.com ESMTP\r\n"));
  expect(await injectionsTo(`http://127.0.0.1:${port}`)()).toBe("runner.disconnected");
});

test("a runner that reads the request and does not answer has timed out", async () => {
  const { port } = await serve((socket) => socket.resume());
  expect(await injectionsTo(`http://127.0.0.1:${port}`, { timeoutMs: 100 })()).toBe("runner.timed_out");
});

/**
 * Starts a server that accepts no connection. Its queue of connections is full, so that a client's SYN stays
 * unanswered. Returns its port.
 */
async function blackHole(): Promise<number> {
  const worker = new Worker(
    `const { parentPort } = require("node:worker_threads");
    const server = require("node:net").createServer().listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => {
      parentPort.postMessage(server.address().port);
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
    });`,
    { eval: true },
  );
  ends.defer(() => worker.terminate());
  const [port] = (await once(worker, "message")) as [number];
  for (;;) {
    const socket = connect(port, "127.0.0.1");
    ends.defer(() => socket.destroy());
    const connected = await Promise.race([
      once(socket, "connect").then(() => true),
      new Promise<boolean>((resolve) => setTimeout(resolve, 200, false)),
    ]);
    if (!connected) return port;
  }
}

const NEVER_CONNECTED: readonly [string, number][] = [
  ["the time of the exchange is over", 100],
  ["undici gives the connection up", 10_000],
];
test.each(sample(NEVER_CONNECTED))(
  "a runner that accepts no connection within %s is unreachable",
  async (_, timeoutMs) => {
    const port = await blackHole();
    expect(await injectionsTo(`http://127.0.0.1:${port}`, { timeoutMs })()).toBe("runner.unreachable");
  },
);

test("a runner whose TLS handshake does not end is unreachable, because nothing of the call was sent", async () => {
  const { port } = await serve((socket) => socket.resume());
  expect(await injectionsTo(`https://127.0.0.1:${port}`, { timeoutMs: 200 })()).toBe("runner.unreachable");
});

test("a connection that the runner closed while idle is not used: the next call uses a new one", async () => {
  const sockets: Socket[] = [];
  const { port, server } = await serve((socket) => {
    sockets.push(socket);
    socket.once("data", () => socket.write(OK));
  });
  const injected = injectionsTo(`http://127.0.0.1:${port}`);
  expect(await injected()).toBe("injected");
  const [first] = sockets;
  first?.end();
  await once(first as Socket, "close"); // both sides have closed
  expect(await injected()).toBe("injected");
  expect(sockets).toHaveLength(2);
  server.close();
  sockets[1]?.end();
  await once(sockets[1] as Socket, "close");
  expect(await injected()).toBe("runner.unreachable");
});

test("a call that cannot be sent to any server does not count as an unreachable runner", async () => {
  const { port } = await serve((socket) => socket.once("data", () => socket.write(OK)));
  const injected = injectionsTo(`http://127.0.0.1:${port}`, { metadata: { "X-PLATFORM-A": "two\nlines" } });
  expect(await injected()).toBe("internal.unexpected");
});
