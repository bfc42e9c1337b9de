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
  /** `host:port` as bound, with the port that was chosen where 0 was asked for. */
  readonly address: string;
  readonly url: string;
  /** How many connections are open. */
  connections(): number;
  /**
   * Takes no more connections, and ends each one with its next answer, or once it has been idle for two seconds. After `graceMs` it
   * closes those that are left.
   */
  close(graceMs?: number): Promise<void>;
};

export type ListenOptions = {
  /** Time for the whole request, headers and body, to arrive. */
  requestTimeoutMs?: number;
  /** How long a connection may be idle after an answer. It is to outlast the idle time-out of a balancer before it. */
  keepAliveMs?: number;
  /** How many connections may be open; see connections.ts for which one gives way to a new one. */
  connectionsMax?: number;
  /** Told once a second how many connections gave way. */
  log?: Logger;
};

/** A request with more bytes of headers is answered 431. */
const HEADER_BYTES_MAX = 16 * 1024;
/**
 * Bytes that a connection keeps of a body that nobody reads, beside the chunk that passes this bound, and of an answer before it is called
 * slow. Set here because Node's default differs by release: 16 KiB in Node 20, 64 KiB since Node 22.
 */
const HIGH_WATER_MARK_BYTES = 16 * 1024;

/**
 * Serves `handler` on `host:port`, and refuses what HTTP/1.1 has every server refuse. The handler sees each request's target
 * without its origin. Throws `start.address_unavailable`.
 */
export async function listen(
  handler: RequestListener,
  address: string,
  options: ListenOptions = {},
): Promise<Listening> {
  const { requestTimeoutMs: requestTimeout = 15_000, keepAliveMs: keepAliveTimeout = 250_000 } = options;
  const { connectionsMax = 4096, log = silentLogger } = options;
  const exchanges = new Exchanges();
  const closed = createEventCounter(log, "http.connections_closed", "warn");
  const connections = new Connections({
    max: connectionsMax,
    isNeeded: (socket) => exchanges.hasProven(socket),
    close: (socket) => {
      closed.count("", { connectionsMax });
      crowdOut(exchanges, socket);
    },
  });
  const tracked = (next: RequestListener): RequestListener => {
    return (req, res) => {
      if (!exchanges.begin(req, res)) return;
      const problem = versionProblem(req) ?? hostProblem(req) ?? transferCodingProblem(req);
      if (problem !== undefined) return refuseAndClose(req, res, problem);
      if (req.url !== undefined) req.url = originForm(req.url, req.method);
      next(req, res);
    };
  };
  const server = createServer(
    {
      requestTimeout,
      headersTimeout: Math.min(10_000, requestTimeout),
      connectionsCheckingInterval: Math.min(1000, requestTimeout),
      keepAliveTimeout, // neither of the time-outs above counts while a connection is idle
      noDelay: true,
      requireHostHeader: false, // Node would refuse without a problem document
      maxHeaderSize: HEADER_BYTES_MAX,
      highWaterMark: HIGH_WATER_MARK_BYTES,
    },
    tracked(handler),
  );
  // Node would end its own side with the client's, without an answer. It has this as a property alone, which its types lack.
  Object.assign(server, { httpAllowHalfOpen: true });
  server.maxHeadersCount = 0; // Node 20 would drop all after the 1,000th, and Content-Length with them; maxHeaderSize bounds them
  server.on("connection", (socket) => {
    exchanges.connected(socket);
    socket.setMaxListeners(0); // each of many pipelined requests may listen for its end
    socket.once("end", () => destroyLater(socket));
    connections.add(socket);
  });
  server.on("checkContinue", tracked(handler));
  server.on("checkExpectation", tracked(refuseExpectation));
  server.on("clientError", createAnswerClientError(exchanges));
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

/** Time for the last answers after the client has ended its side. */
const HALF_OPEN_MS = 10_000;

function destroyLater(socket: Duplex): void {
  const timer = setTimeout(() => socket.destroy(), HALF_OPEN_MS);
  socket.once("close", () => clearTimeout(timer));
}

const refuseExpectation: RequestListener = (req, res) => {
  const reason = `Expect: ${req.headers.expect}`;
  const publicDetail = "the only supported expectation is 100-continue";
  sendProblem(req, res, new AppError("request.expectation_failed", { reason, publicDetail }));
};

/** RFC 9112, section 3: a request line names its version. Node takes one without it for HTTP/0.9, which has neither headers nor bodies. */
function versionProblem({ httpVersionMajor }: IncomingMessage): AppError | undefined {
  if (httpVersionMajor >= 1) return undefined;
  return AppError.public("request.malformed", "the request line has no HTTP version");
}

/** RFC 9112, section 3.2: a request has one Host, and may have none before HTTP/1.1. Node drops a second one without a word. */
function hostProblem(req: IncomingMessage): AppError | undefined {
  const hosts = hostsOf(req);
  if (hosts === 1 || (hosts === 0 && req.httpVersion !== "1.1")) return undefined;
  const problem = hosts === 0 ? "is missing" : "was sent more than once";
  return AppError.public("request.malformed", `the header Host ${problem}`);
}

/** Every request passes here, so nothing is made of its other headers. */
function hostsOf({ rawHeaders }: IncomingMessage): number {
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    if (name.length === 4 && name.toLowerCase() === "host") hosts += 1;
  }
  return hosts;
}

function refuseAndClose(req: IncomingMessage, res: ServerResponse, problem: AppError): void {
  res.shouldKeepAlive = false;
  sendProblem(req, res, problem);
}

/** Throws `start.config_invalid` for what is no address to listen on. */
export function parseAddress(address: string): ListenAddress {
  const read = readListenAddress(address);
  if (typeof read !== "string") return read;
  throw new AppError("start.config_invalid", {
    reason: `the listen address ${JSON.stringify(address)} ${read}`,
  });
}

/** Connections that the system keeps until they are taken. If it must drop one, its sender comes again after a second or more. */
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

/** How long a connection must have been idle: on one that was just used, the next request may be on its way already. */
const IDLE_MS = 2000;
const SWEEP_MS = 100;

async function closeServer(server: Server, exchanges: Exchanges, graceMs: number): Promise<void> {
  const timer = setTimeout(() => server.closeAllConnections(), graceMs);
  await quietTurn();
  const closeIdle = () => exchanges.closeIdle(IDLE_MS);
  const sweeps = setInterval(() => void quietTurn().then(closeIdle), SWEEP_MS);
  // The close() of an HTTP server would close every idle connection at once, and end the time-outs of requests.
  const closed = new Promise((resolve) => NetServer.prototype.close.call(server, resolve));
  exchanges.end();
  closeIdle();
  await closed;
  clearInterval(sweeps);
  clearTimeout(timer);
  server.close(); // ends the timer of the time-outs
}

const QUIET_MS = 0.3;
const QUIET_WAIT_MS = 200;

/**
 * Resolves right after a turn of the event loop that took no time: all connections and bytes that had arrived are taken. To close a
 * socket before would reset those that wait in the system, and their requests would fail.
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

/** Closes a connection for another one, without an answer: its sender decides when it takes one, and would keep its place. */
function crowdOut(exchanges: Exchanges, socket: Duplex): void {
  const unfinished = exchanges.unfinished(socket);
  const reason = "the connection was closed to make room for a new one";
  if (unfinished !== undefined) abortRequest(unfinished, new AppError("request.over_budget", { reason }));
  socket.destroy();
}

/**
 * Answers a request that Node's parser refused or timed out with a problem document, after the answers still owed on the
 * connection, and ends the connection. If a handler already has the request, it is aborted and the handler answers it: a
 * request that is refused here is never accepted afterwards.
 */
function createAnswerClientError(exchanges: Exchanges) {
  const refused = new WeakSet<Duplex>();

  return function answerClientError(error: NodeJS.ErrnoException, socket: Duplex): void {
    if (error.code === "ECONNRESET" || socket.destroyed) {
      socket.destroy();
      return;
    }
    if (refused.has(socket)) return; // more bytes of the same request
    refused.add(socket);
    void refuse(exchanges, socket, codeOf(error));
  };
}

async function refuse(exchanges: Exchanges, socket: Duplex, code: ErrorCode): Promise<void> {
  lingerOnClose(socket);
  const unfinished = exchanges.unfinished(socket);
  if (unfinished !== undefined) {
    const { title } = CODES[code];
    abortRequest(unfinished, new AppError(code, { reason: title.toLowerCase(), publicDetail: title }));
  }
  socket.pause();
  await exchanges.answered(socket);
  endAndLinger(socket, unfinished === undefined && socket.writable ? problemAnswer(code) : undefined);
}

function problemAnswer(code: ErrorCode): string {
  const { status, title } = CODES[code];
  const body = problemBody(code, title);
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    "Connection: close",
    "Cache-Control: no-store",
    "X-Content-Type-Options: nosniff",
    "Content-Type: application/problem+json",
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  return `${head.join("\r\n")}\r\n\r\n${body}`;
}

function codeOf(error: NodeJS.ErrnoException): ErrorCode {
  if (error.code === "ERR_HTTP_REQUEST_TIMEOUT") return "request.timed_out";
  if (error.code === "HPE_HEADER_OVERFLOW") return "request.headers_too_large";
  return "request.malformed";
}
