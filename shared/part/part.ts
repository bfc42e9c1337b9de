import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { type Listening, type ListenOptions, listen } from "../http/listen.ts";
import { sendProblem } from "../http/problem.ts";
import type { Readiness } from "../http/readiness.ts";
import type { Route } from "../http/router.ts";
import { mountedAt } from "../http/target.ts";
import { trackAnswer } from "../http/unanswered.ts";
import { AppError } from "../platform/errors/app-error.ts";
import type { Logger } from "../platform/log/logger.ts";
import { within } from "../platform/time/clock.ts";

/** A part of Postern inside another program. All parts have this life cycle: created, ready, stopped, closed. */
export type Part = {
  /**
   * Resolves once the part can work, for which it waits for Redis. Rejects if the first Redis that it reaches cannot be used, or
   * if the part is closed before it was ready.
   */
  ready(): Promise<void>;
  /** Returns whether the part can work now, and the state of each of its dependencies, for a health check. */
  readiness(): Readiness;
  /**
   * Stops accepting new work. Requests are answered 503, and `readiness` says that the part is not ready. Work in flight
   * continues.
   */
  stop(): void;
  /**
   * Ends the servers of `listen()` without failing a request, stops the part, and waits at most `graceMs` for work in flight.
   * Then it ends the timers. It also ends the connection to Redis if the part opened it. A second call returns the same promise.
   */
  close(graceMs?: number): Promise<void>;
};

/** A part that answers HTTP requests. */
export type ServedPart = Part & {
  /** Handler for `http.createServer`, for its `checkContinue` event, or for a path of an existing server. */
  readonly handler: (req: IncomingMessage, res: ServerResponse) => void;
  /** Serves on `host:port`, with the limits and timeouts of Postern's own server. Port 0 chooses a free port. */
  listen(address: string): Promise<Listening>;
};

/** A server of `listen()`: `address` is the bound `host:port`, and `close(graceMs)` ends only this server. */
export type { Listening } from "../http/listen.ts";
export type { Readiness } from "../http/readiness.ts";

/**
 * @internal A part that was composed for a validated configuration. The part's process, or `createPart`, calls these methods in
 * the right order.
 */
export type Composed = {
  /** Resolves if the first Redis that is reached can be used; rejects if it cannot. */
  firstCheck: Promise<void>;
  readiness(): Readiness;
  /**
   * Ends waits that keep requests open, such as those for results. From then on the part is not ready, but still accepts
   * requests.
   */
  drain?(): void;
  /** Accepts nothing new. Work in flight continues. */
  stop(): void;
  /**
   * Ends the part because a newer generation has replaced it. The part begins no new work. Resolves once its work in flight has
   * ended, which may take any time, and then the part is closed. A part without this method is closed at once instead, because
   * its work ends within `graceMs`.
   */
  retire?(): Promise<void>;
  /** Time that work in flight may take to end. */
  graceMs: number;
  /** Further routes that the process serves at its private address, beside the probes and metrics. */
  opsRoutes?: readonly Route[];
  /** Stops, waits at most this long for work in flight, and ends timers and connections. This must be the last call. */
  close(graceMs?: number): Promise<void>;
};

/** @internal A composed part that answers requests. */
export type ComposedServer = Composed & {
  /** Handler for `http.createServer` and its `checkContinue` event, or for the app of another program. */
  handler: RequestListener;
  /** Limits of a server with this handler. */
  http: ListenOptions;
  /** Ends work other than HTTP requests, and resolves once it has ended. */
  settle?(): Promise<void>;
};

type Owner = { log: Logger; end(): Promise<void> };

/** @internal Creates the public form of a part whose work does not come from a server, with its life cycle. */
export function createPart(
  composed: Composed & { endServers?(graceMs: number): Promise<unknown> },
  host: Pick<Owner, "end">,
): Part {
  let rejectReady: (reason: AppError) => void = () => {};
  const ended = new Promise<never>((_, reject) => {
    rejectReady = reject;
  });
  ended.catch(() => {});
  let closed: Promise<void> | undefined;

  async function finish(graceMs: number): Promise<void> {
    const until = performance.now() + graceMs;
    rejectReady(new AppError("service.draining", { reason: "closed before it was ready" }));
    composed.drain?.();
    await composed.endServers?.(graceMs);
    composed.stop();
    try {
      await composed.close(Math.max(0, until - performance.now()));
    } finally {
      await host.end();
    }
  }

  return {
    ready: () => Promise.race([composed.firstCheck, ended]),
    readiness() {
      const found = composed.readiness();
      return { ...found, ready: found.ready && closed === undefined };
    },
    stop: composed.stop,
    close(graceMs = composed.graceMs) {
      closed ??= finish(graceMs);
      return closed;
    },
  };
}

/** Time for sending the last answers, after `drain` has ended the requests that wait for results. */
const LAST_ANSWERS_MS = 2000;

/**
 * @internal Returns the part with a `close` that first waits, at most `graceMs`, until all requests are answered. Then it ends
 * the waits that remain, such as those for results.
 */
export function closeAfterRequests<Own extends Omit<ComposedServer, "stop">>(composed: Own): Own {
  const inFlight = new InFlightRequests();
  return {
    ...composed,
    handler(req: IncomingMessage, res: ServerResponse) {
      // The client has gone, and the response may never emit "close". So the request is neither counted nor handled.
      if (req.socket.destroyed) return;
      inFlight.begin(res);
      composed.handler(req, res);
    },
    async close(graceMs = composed.graceMs) {
      const until = performance.now() + graceMs;
      const ended = Promise.all([inFlight.ended(), composed.settle?.()]);
      if ((await within(graceMs, ended)).kind === "late") {
        composed.drain?.();
        await within(Math.min(graceMs, LAST_ANSWERS_MS), ended);
      }
      await composed.close(Math.max(0, until - performance.now()));
    },
  };
}

/** @internal Creates the public form of a part that answers requests, with its life cycle. */
export function createServedPart(composed: ComposedServer, host: Owner, mountPath?: string): ServedPart {
  const servers: Listening[] = [];
  let isStopped = false;
  const mounted = mountPath === undefined ? composed.handler : mountedAt(mountPath, composed.handler);
  const ending = closeAfterRequests({
    ...composed,
    handler(req, res) {
      if (isStopped) res.shouldKeepAlive = false;
      if (mayLackHeaders(req)) sendProblem(req, res, tooManyHeaders());
      else mounted(req, res);
    },
  });
  const { handler } = ending;
  const part = createPart(
    {
      ...ending,
      stop() {
        isStopped = true;
        composed.stop();
      },
      endServers: (graceMs) => Promise.all(servers.map((server) => server.close(graceMs))),
    },
    host,
  );
  return {
    ...part,
    handler,
    async listen(address) {
      const server = await listen(handler, address, { ...composed.http, log: host.log });
      servers.push(server);
      return server;
    },
  };
}

/** Node's default limit on headers, if the server has no `maxHeadersCount`. */
const HEADERS_MAX = 1000;

/**
 * Whether the host program's server may have dropped headers of this request. Node silently drops all headers beyond the server's
 * `maxHeadersCount`, even X-Forwarded-For and Content-Length. The value 0 means no limit, and is the value that `listen` sets.
 */
function mayLackHeaders({ rawHeaders, socket }: IncomingMessage): boolean {
  const { server } = socket as typeof socket & { server?: { maxHeadersCount?: number | null } };
  const max = server?.maxHeadersCount ?? HEADERS_MAX;
  return max > 0 && rawHeaders.length >= 2 * max;
}

function tooManyHeaders(): AppError {
  return AppError.public("request.headers_too_large", "the request has more headers than this server keeps");
}

/** Tracks the requests that are not answered yet. */
class InFlightRequests {
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
