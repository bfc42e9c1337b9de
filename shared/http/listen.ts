import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { AppError, messageOf } from "../errors/app-error.ts";
import { createAnswerClientError } from "./client-error.ts";
import { Exchanges } from "./exchanges.ts";
import { sendProblem } from "./problem.ts";

export type Listening = {
  /** `host:port` as bound, with the port that was chosen where 0 was asked for. */
  readonly address: string;
  readonly url: string;
  /** Stops taking connections, lets requests in flight end (at most `graceMs`), then closes what is left. */
  close(graceMs?: number): Promise<void>;
};

type Options = {
  /** Time for the whole request, headers and body, to arrive. */
  requestTimeoutMs?: number;
};

/** Serves `handler` on `host:port`. Throws `start.address_unavailable`. */
export async function listen(
  handler: RequestListener,
  address: string,
  options: Options = {},
): Promise<Listening> {
  const requestTimeout = options.requestTimeoutMs ?? 15_000;
  const exchanges = new Exchanges();
  const known = (next: RequestListener): RequestListener => {
    return (req, res) => {
      exchanges.begin(req, res);
      next(req, res);
    };
  };
  const server = createServer(
    {
      requestTimeout,
      headersTimeout: Math.min(10_000, requestTimeout),
      connectionsCheckingInterval: Math.min(1000, requestTimeout),
      keepAliveTimeout: 65_000,
      noDelay: true,
    },
    known(handler),
  );
  server.on("checkContinue", known(handler));
  server.on("checkExpectation", known(refuseExpectation));
  server.on("clientError", createAnswerClientError(exchanges));
  const { host, port } = parseAddress(address);
  await bound(server, { host, port, address });
  const chosen = (server.address() as AddressInfo).port;
  const shown = host.includes(":") ? `[${host}]:${chosen}` : `${host}:${chosen}`;
  return {
    address: shown,
    url: `http://${shown}`,
    close: (graceMs = 10_000) => closeServer(server, graceMs),
  };
}

const refuseExpectation: RequestListener = (req, res) => {
  const publicDetail = "the only expectation that is met is 100-continue";
  const error = new AppError("request.expectation_failed", {
    reason: `Expect: ${req.headers.expect}`,
    publicDetail,
  });
  sendProblem(req, res, { error });
};

/** `host:port` or `[ipv6]:port`. */
export function parseAddress(address: string): { host: string; port: number } {
  const match = /^(?:\[(.+)\]|([^:]+)):(\d{1,5})$/.exec(address);
  return { host: match?.[1] ?? match?.[2] ?? "127.0.0.1", port: Number(match?.[3] ?? 0) };
}

function bound(
  server: Server,
  { host, port, address }: { host: string; port: number; address: string },
): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause) => {
      const reason = `cannot listen on ${address}: ${messageOf(cause)}`;
      reject(new AppError("start.address_unavailable", { reason, cause }));
    });
    server.listen(port, host, resolve);
  });
}

function closeServer(server: Server, graceMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => server.closeAllConnections(), graceMs);
    server.close(() => {
      clearTimeout(timer);
      resolve();
    });
    server.closeIdleConnections();
  });
}
