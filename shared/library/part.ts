import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { AppError } from "../errors/app-error.ts";
import { type Listening, listen } from "../http/listen.ts";
import { sendProblem } from "../http/problem.ts";
import type { Readiness } from "../http/readiness.ts";
import { mountedAt } from "../http/target.ts";
import { trackAnswer } from "../http/unanswered.ts";
import type { Logger } from "../log/logger.ts";
import { within } from "../time/clock.ts";
import type { Connection } from "./redis-option.ts";

/** A part of Postern inside a program of somebody else's. All parts have this life: made, ready, stopped, closed. */
export type Part = {
  /**
   * Resolves once the part can work; meanwhile it waits for Redis to come. Rejects if the first Redis it reaches cannot be used as it
   * is, with the code and the message with which the program would end, or if the part is closed before.
   */
  ready(): Promise<void>;
  /** Whether it can work now, and what was found of each thing it needs: for a health check. */
  readiness(): Readiness;
  /** Takes nothing new from now on: requests are answered 503, and it is not ready. What is under way goes on. */
  stop(): void;
  /**
   * Ends the servers of `listen()` so that no request fails, stops, waits at most `graceMs` for what is under way, and ends the timers
   * and the connection to Redis, if the part made it. Called again, it is the same end.
   */
  close(graceMs?: number): Promise<void>;
};

/** A part that answers HTTP requests. */
export type ServedPart = Part & {
  /** For `http.createServer`, for its `checkContinue` event, or for a path of a server that you have. */
  readonly handler: (req: IncomingMessage, res: ServerResponse) => void;
  /** Serves on `host:port`, with the limits and time-outs of Postern's own server; port 0 is any that is free. */
  listen(address: string): Promise<Listening>;
};

/** A server of `listen()`: `address` is `host:port` as bound, and `close(graceMs)` ends it alone. */
export type { Listening } from "../http/listen.ts";
export type { Readiness } from "../http/readiness.ts";

type Life = {
  firstCheck: Promise<void>;
  readiness(): Readiness;
  /** Ends what keeps requests open, such as waits for results; requests are still taken. */
  drain?(): void;
  /** Ends the part's own servers, which takes at most `graceMs`. */
  endServers?(graceMs: number): Promise<void>;
  stop(): void;
  /** Ends what the part has begun, and waits at most `graceMs` for what is still under way. */
  end(graceMs: number): void | Promise<void>;
  connection: Connection;
  /** Of what it has counted, which ends with the part. */
  reports?: { stop(): Promise<void> } | undefined;
  graceMs: number;
};

/** @internal The life of a part that takes work from elsewhere than a server. */
export function createPart({ firstCheck, stop, end, connection, reports, ...life }: Life): Part {
  let giveUp: (reason: AppError) => void = () => {};
  const ended = new Promise<never>((_, reject) => {
    giveUp = reject;
  });
  ended.catch(() => {});
  let closed: Promise<void> | undefined;

  async function finish(graceMs: number): Promise<void> {
    const until = performance.now() + graceMs;
    giveUp(new AppError("service.draining", { reason: "closed before it was ready" }));
    life.drain?.();
    await life.endServers?.(graceMs);
    stop();
    try {
      await end(Math.max(0, until - performance.now()));
    } finally {
      await reports?.stop();
      connection.close();
    }
  }

  return {
    ready: () => Promise.race([firstCheck, ended]),
    readiness() {
      const found = life.readiness();
      return { ...found, ready: found.ready && closed === undefined };
    },
    stop,
    close(graceMs = life.graceMs) {
      closed ??= finish(graceMs);
      return closed;
    },
  };
}

type Served = Life & {
  handler: RequestListener;
  /** Resolves once what is under way beside requests has ended; nothing new begins. */
  settle?(): Promise<void>;
  mountPath: string | undefined;
  requestTimeoutMs?: number | undefined;
  connectionsMax?: number | undefined;
  keepAliveMs?: number | undefined;
  log: Logger;
};

/** @internal The life of a part that answers requests. */
export function createServedPart({ handler, mountPath, ...life }: Served): ServedPart {
  const { requestTimeoutMs = 15_000, connectionsMax = 4096, keepAliveMs = 250_000, log } = life;
  const servers: Listening[] = [];
  const underWay = new UnderWay();
  let isStopped = false;
  const mounted = mountPath === undefined ? handler : mountedAt(mountPath, handler);
  const counted: RequestListener = (req, res) => {
    if (req.socket.destroyed) return; // nobody gets the answer, which may have emitted its last event
    underWay.begin(res);
    if (isStopped) res.shouldKeepAlive = false;
    if (mayLackHeaders(req)) sendProblem(req, res, tooManyHeaders());
    else mounted(req, res);
  };
  const part = createPart({
    ...life,
    stop() {
      isStopped = true;
      life.stop();
    },
    async endServers(graceMs) {
      await Promise.all(servers.map((server) => server.close(graceMs)));
    },
    async end(graceMs) {
      const until = performance.now() + graceMs;
      await within(graceMs, Promise.all([underWay.ended(), life.settle?.()]));
      await life.end(Math.max(0, until - performance.now()));
    },
  });
  return {
    ...part,
    handler: counted,
    async listen(address) {
      const server = await listen(counted, address, { requestTimeoutMs, connectionsMax, keepAliveMs, log });
      servers.push(server);
      return server;
    },
  };
}

/** Node's default limit on headers, if the server has no `maxHeadersCount`. */
const HEADERS_MAX = 1000;

/**
 * Whether the host's server may have dropped headers of this request: Node drops those beyond the server's `maxHeadersCount` without
 * a word, the proxy's X-Forwarded-For and Content-Length too. 0 is no limit, and what `listen` sets.
 */
function mayLackHeaders({ rawHeaders, socket }: IncomingMessage): boolean {
  const { server } = socket as typeof socket & { server?: { maxHeadersCount?: number | null } };
  const max = server?.maxHeadersCount ?? HEADERS_MAX;
  return max > 0 && rawHeaders.length >= 2 * max;
}

function tooManyHeaders(): AppError {
  return AppError.public("request.headers_too_large", "the request has more headers than this server keeps");
}

/** The requests that are not answered yet. */
class UnderWay {
  #count = 0;
  #onEnded: (() => void)[] = [];

  begin(res: ServerResponse): void {
    trackAnswer(res);
    this.#count += 1;
    res.once("close", () => {
      this.#count -= 1;
      if (this.#count > 0) return;
      for (const resolve of this.#onEnded.splice(0)) resolve();
    });
  }

  ended(): Promise<void> {
    if (this.#count === 0) return Promise.resolve();
    return new Promise((resolve) => this.#onEnded.push(resolve));
  }
}
