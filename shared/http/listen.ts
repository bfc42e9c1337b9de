import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from "node:http";
import { type AddressInfo, Server as NetServer } from "node:net";
import type { Duplex } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import { AppError, messageOf } from "../platform/errors/app-error.ts";
import { CODES, type ErrorCode } from "../platform/errors/codes.ts";
import { createEventCounter } from "../platform/log/event-counter.ts";
import { type Logger, silentLogger } from "../platform/log/logger.ts";
import { abortRequest } from "./body.ts";
import { Connections } from "./connections.ts";
import { Exchanges } from "./exchanges.ts";
import { originForm } from "./headers.ts";
import { type ListenAddress, listenAddressText, readListenAddress } from "./ip/listen-address.ts";
import { endAndLinger, lingerOnClose } from "./linger.ts";
import { problemBody, sendProblem } from "./problem.ts";
import { transferCodingProblem } from "./transfer-coding.ts";

export type Listening = {
  /** Bound `host:port`, with the chosen port if port 0 was requested. */
  readonly address: string;
  readonly url: string;
  /** Returns the number of open connections. */
  connections(): number;
  /**
   * Stops accepting connections. It ends each connection with its next answer, or once the connection has been idle for
   * two seconds. After `graceMs` it closes the remaining ones.
   */
  close(graceMs?: number): Promise<void>;
};

export type ListenOptions = {
  /** Time limit in ms for the arrival of a whole request, headers and body. */
  requestTimeoutMs?: number;
  /**
   * Idle time in ms after which a connection is closed. It should be longer than the idle time-out of a load balancer
   * in front.
   */
  keepAliveMs?: number;
  /** Limit on open connections. connections.ts describes which one is closed for a new one. */
  connectionsMax?: number;
  /** Headers of every refusal that the server sends itself, without calling the handler. */
  refusalHeaders?: Readonly<Record<string, string>>;
  /** Receives, at most once a second, the number of connections closed at the limit. */
  log?: Logger;
};

/** Limit on a request's headers. Larger ones are answered with 431. */
const HEADER_BYTES_MAX = 16 * 1024;
/**
 * Limit on the bytes that a connection buffers in each direction. An unread body may exceed it by one chunk. It is set
 * because Node's default differs by release: 16 KiB in Node 20, 64 KiB since Node 22.
 */
const HIGH_WATER_MARK_BYTES = 16 * 1024;

/**
 * Serves `handler` on `host:port`, and refuses requests that HTTP/1.1 requires every server to refuse. If a client
 * sends a whole URL as the request's target, the handler gets only its path and query. Throws
 * `start.address_unavailable`.
 */
export async function listen(
  handler: RequestListener,
  address: string,
  options: ListenOptions = {},
): Promise<Listening> {
  const { requestTimeoutMs: requestTimeout = 15_000, keepAliveMs: keepAliveTimeout = 250_000 } = options;
  const { connectionsMax = 4096, log = silentLogger, refusalHeaders = {} } = options;
  const exchanges = new Exchanges();
  const closed = createEventCounter(log, "http.connections_closed", "warn");
  const connections = new Connections({
    max: connectionsMax,
    isAnswering: (socket) => exchanges.isAnsweringAuthenticated(socket),
    close: (socket) => {
      closed.count("", { connectionsMax });
      closeForNewConnection(exchanges, socket);
    },
  });
  const tracked = (next: RequestListener): RequestListener => {
    return (req, res) => {
      if (!exchanges.begin(req, res)) return;
      const problem = versionProblem(req) ?? hostProblem(req) ?? transferCodingProblem(req);
      if (problem !== undefined) return refuseAndClose(req, res, problem, refusalHeaders);
      if (req.url !== undefined) req.url = originForm(req.url, req.method);
      next(req, res);
    };
  };
  const server = createServer(
    {
      requestTimeout,
      headersTimeout: Math.min(10_000, requestTimeout),
      connectionsCheckingInterval: Math.min(1000, requestTimeout),
      keepAliveTimeout, // the time-outs above do not apply to idle connections
      noDelay: true,
      requireHostHeader: false, // Node would refuse the request without a problem document
      maxHeaderSize: HEADER_BYTES_MAX,
      highWaterMark: HIGH_WATER_MARK_BYTES,
    },
    tracked(handler),
  );
  // A client may end its side of the connection after its request. Node would then end the server's side too, and the client
  // would get no answer. The property `httpAllowHalfOpen` prevents this, but Node's types lack it.
  Object.assign(server, { httpAllowHalfOpen: true });
  server.maxHeadersCount = 0; // Node 20 would drop headers after the 1,000th, even Content-Length; maxHeaderSize limits them instead
  server.on("connection", (socket) => {
    exchanges.connected(socket);
    socket.setMaxListeners(0); // each of many pipelined requests may listen for the end of the socket
    socket.once("end", () => destroyLater(socket));
    connections.add(socket);
  });
  server.on("checkContinue", tracked(handler));
  server.on("checkExpectation", tracked(createRefuseExpectation(refusalHeaders)));
  server.on("clientError", createAnswerClientError(exchanges, refusalHeaders));
  await bind(server, address);
  const { host } = parseAddress(address);
  const shown = listenAddressText({ host, port: (server.address() as AddressInfo).port });
  return {
    address: shown,
    url: `http://${shown}`,
    connections: () => connections.count,
    async close(graceMs = 10_000) {
      await closeServer(server, exchanges, graceMs);
      closed.flush();
    },
  };
}

/** Time in ms for the last answers after the client has ended its side. */
const HALF_OPEN_MS = 10_000;

function destroyLater(socket: Duplex): void {
  const timer = setTimeout(() => socket.destroy(), HALF_OPEN_MS);
  socket.once("close", () => clearTimeout(timer));
}

type Headers = Readonly<Record<string, string>>;

function createRefuseExpectation(headers: Headers): RequestListener {
  return (req, res) => {
    const reason = `Expect: ${req.headers.expect}`;
    const publicDetail = "the only supported expectation is 100-continue";
    const error = new AppError("request.expectation_failed", { reason, publicDetail });
    sendProblem(req, res, error, { headers });
  };
}

/**
 * Requires a version in the request line (RFC 9112, section 3). Node accepts a line without one as HTTP/0.9, which has
 * no headers and no bodies.
 */
function versionProblem({ httpVersionMajor }: IncomingMessage): AppError | undefined {
  if (httpVersionMajor >= 1) return undefined;
  return AppError.public("request.malformed", "the request line has no HTTP version");
}

/**
 * Requires exactly one Host; before HTTP/1.1 it may be missing (RFC 9112, section 3.2). Node silently drops a second
 * one.
 */
function hostProblem(req: IncomingMessage): AppError | undefined {
  const hosts = hostsOf(req);
  if (hosts === 1 || (hosts === 0 && req.httpVersion !== "1.1")) return undefined;
  const problem = hosts === 0 ? "is missing" : "was sent more than once";
  return AppError.public("request.malformed", `the header Host ${problem}`);
}

/**
 * Counts the Host headers. It reads `rawHeaders`, because this runs for every request and parsing all headers would be
 * slower.
 */
function hostsOf({ rawHeaders }: IncomingMessage): number {
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    if (name.length === 4 && name.toLowerCase() === "host") hosts += 1;
  }
  return hosts;
}

function refuseAndClose(
  req: IncomingMessage,
  res: ServerResponse,
  problem: AppError,
  headers: Headers,
): void {
  res.shouldKeepAlive = false;
  sendProblem(req, res, problem, { headers });
}

/** Parses an address to listen on. Throws `start.config_invalid` if it is not one. */
export function parseAddress(address: string): ListenAddress {
  const read = readListenAddress(address);
  if (typeof read !== "string") return read;
  throw new AppError("start.config_invalid", {
    reason: `the listen address ${JSON.stringify(address)} ${read}`,
  });
}

/**
 * Limit on the connections that wait in the operating system until the server accepts them. Beyond it, the system drops
 * new connections, and a client tries again only after a second or more.
 */
const BACKLOG = 4096;

async function bind(server: Server, address: string): Promise<void> {
  const { host, port } = parseAddress(address);
  return new Promise((resolve, reject) => {
    server.once("error", (cause) => {
      const reason = `cannot listen on ${address}: ${messageOf(cause)}`;
      reject(new AppError("start.address_unavailable", { reason, cause }));
    });
    server.listen({ port, host, backlog: BACKLOG }, resolve);
  });
}

/**
 * Time in ms for which a connection must have been idle before a server that is closing ends it. On a connection that
 * was used more recently, the client may already have sent the next request.
 */
const IDLE_MS = 2000;
const SWEEP_MS = 100;

async function closeServer(server: Server, exchanges: Exchanges, graceMs: number): Promise<void> {
  const timer = setTimeout(() => server.closeAllConnections(), graceMs);
  await quietTurn();
  const closeIdle = () => exchanges.closeIdle(IDLE_MS);
  const sweeps = setInterval(() => void quietTurn().then(closeIdle), SWEEP_MS);
  // The close() of an HTTP server closes every idle connection at once, and stops the time-outs of requests. So the
  // close() of its base class is called, which only stops accepting connections.
  const closed = new Promise((resolve) => NetServer.prototype.close.call(server, resolve));
  exchanges.end();
  closeIdle();
  await closed;
  clearInterval(sweeps);
  clearTimeout(timer);
  server.close(); // stops the timer of the request time-outs
}

const QUIET_MS = 0.3;
const QUIET_WAIT_MS = 200;

/**
 * Waits for a turn of the event loop with almost no work. Before that, connections and bytes may still wait in the
 * operating system until this process reads them. To close a socket with unread bytes would reset its connection, and
 * the client would get no answer.
 */
async function quietTurn(): Promise<void> {
  const until = performance.now() + QUIET_WAIT_MS;
  for (;;) {
    const begunAt = performance.now();
    await nextTurn();
    const now = performance.now();
    if (now - begunAt < QUIET_MS || now >= until) return;
  }
}

/**
 * Closes a connection to free its slot for a new one. It sends no answer, because a client that reads the answer slowly
 * would keep the slot.
 */
function closeForNewConnection(exchanges: Exchanges, socket: Duplex): void {
  const unfinished = exchanges.unfinished(socket);
  const reason = "the connection was closed to make room for a new one";
  if (unfinished !== undefined) abortRequest(unfinished, new AppError("request.over_budget", { reason }));
  socket.destroy();
}

/**
 * Creates the handler of requests that Node could not parse or that took too long to arrive. It answers with a problem
 * document, after the pending answers of the connection, and ends the connection. If the request has already reached a
 * handler, it is aborted, and that handler answers. So a request that was malformed or late is never accepted
 * afterwards.
 */
function createAnswerClientError(exchanges: Exchanges, headers: Headers) {
  const refused = new WeakSet<Duplex>();

  return function answerClientError(error: NodeJS.ErrnoException, socket: Duplex): void {
    if (error.code === "ECONNRESET" || socket.destroyed) {
      socket.destroy();
      return;
    }
    if (refused.has(socket)) return; // more bytes of the same request
    refused.add(socket);
    void refuse(exchanges, socket, codeOf(error), headers);
  };
}

async function refuse(
  exchanges: Exchanges,
  socket: Duplex,
  code: ErrorCode,
  headers: Headers,
): Promise<void> {
  lingerOnClose(socket);
  const unfinished = exchanges.unfinished(socket);
  if (unfinished !== undefined) {
    const { title } = CODES[code];
    abortRequest(unfinished, new AppError(code, { reason: title.toLowerCase(), publicDetail: title }));
  }
  socket.pause();
  await exchanges.answered(socket);
  endAndLinger(
    socket,
    unfinished === undefined && socket.writable ? problemAnswer(code, headers) : undefined,
  );
}

function problemAnswer(code: ErrorCode, headers: Headers): string {
  const { status, title } = CODES[code];
  const body = problemBody(code, title);
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    "Connection: close",
    "Cache-Control: no-store",
    "X-Content-Type-Options: nosniff",
    "Content-Type: application/problem+json",
    `Content-Length: ${Buffer.byteLength(body)}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
  ];
  return `${head.join("\r\n")}\r\n\r\n${body}`;
}

function codeOf(error: NodeJS.ErrnoException): ErrorCode {
  if (error.code === "ERR_HTTP_REQUEST_TIMEOUT") return "request.timed_out";
  if (error.code === "HPE_HEADER_OVERFLOW") return "request.headers_too_large";
  return "request.malformed";
}
