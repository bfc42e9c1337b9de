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

/** A part of Postern inside another program. All parts have this life: made, ready, stopped, closed. */
export type Part = {
  /**
   * Resolves once the part can work; meanwhile it waits for Redis to come. Rejects if the first Redis it reaches cannot be used as it
   * is, with the code and the message with which the program would end, or if the part is closed before.
   */
  ready(): Promise<void>;
  /** Whether it can work now, and what was found of each thing it needs: for a health check. */
  readiness(): Readiness;
  /** Takes nothing new from now on: requests are answered 503, and it is not ready. Work in flight goes on. */
  stop(): void;
  /**
   * Ends the servers of `listen()` so that no request fails, stops, and waits at most `graceMs` for work in flight. Then it ends the timers
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

/** @internal A part made of its parts, for a checked configuration. Its process, or `createPart`, gives it a life. */
export type Composed = {
  /** Resolves if the first Redis that is reached can be used; rejects if it cannot. */
  firstCheck: Promise<void>;
  readiness(): Readiness;
  /** Ends what keeps requests open, such as waits for results. The part is not ready, but still takes requests. */
  drain?(): void;
  /** Takes nothing new. Work in flight goes on. */
  stop(): void;
  /**
   * Begins nothing new, because another configuration is in force. Resolves once its work has ended, which may take any time; then it is
   * closed. A part without it is closed at once, because its work ends within `graceMs`.
   */
  retire?(): Promise<void>;
  /** How long work in flight may take to end. */
  graceMs: number;
  /** Further routes of the private address of its process. */
  opsRoutes?: readonly Route[];
  /** Stops, waits at most this long for work in flight, and ends timers and connections. Call it last. */
  close(graceMs?: number): Promise<void>;
};

/** @internal A composed part that answers requests. */
export type ComposedServer = Composed & {
  /** For `http.createServer` and its `checkContinue` event, or for the app of a host. */
  handler: RequestListener;
  /** Limits of a server for this handler. */
  http: ListenOptions;
  /** Resolves once work beside requests has ended; nothing new begins. */
  settle?(): Promise<void>;
};

type Owner = { log: Logger; end(): Promise<void> };

/** @internal The life of a part that takes work from elsewhere than a server. */
export function createPart(
  composed: Composed & { endServers?(graceMs: number): Promise<unknown> },
  host: Pick<Owner, "end">,
): Part {
  let giveUp: (reason: AppError) => void = () => {};
  const ended = new Promise<never>((_, reject) => {
    giveUp = reject;
  });
  ended.catch(() => {});
  let closed: Promise<void> | undefined;

  async function finish(graceMs: number): Promise<void> {
    const until = performance.now() + graceMs;
    giveUp(new AppError("service.draining", { reason: "closed before it was ready" }));
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

/** For what waits to be answered at the end, such as clients that wait for a result. */
const LAST_ANSWERS_MS = 2000;

/** @internal The same part. To close it, its requests are answered first, for as long as its work may take to end. */
export function endingRequests<Own extends Omit<ComposedServer, "stop">>(composed: Own): Own {
  const underWay = new UnderWay();
  return {
    ...composed,
    handler(req: IncomingMessage, res: ServerResponse) {
      if (req.socket.destroyed) return; // the answer goes nowhere, and may have emitted its last event
      underWay.begin(res);
      composed.handler(req, res);
    },
    async close(graceMs = composed.graceMs) {
      const until = performance.now() + graceMs;
      const ended = Promise.all([underWay.ended(), composed.settle?.()]);
      if ((await within(graceMs, ended)).kind === "late") {
        composed.drain?.();
        await within(Math.min(graceMs, LAST_ANSWERS_MS), ended);
      }
      await composed.close(Math.max(0, until - performance.now()));
    },
  };
}

/** @internal The life of a part that answers requests. */
export function createServedPart(composed: ComposedServer, host: Owner, mountPath?: string): ServedPart {
  const servers: Listening[] = [];
  let isStopped = false;
  const mounted = mountPath === undefined ? composed.handler : mountedAt(mountPath, composed.handler);
  const ending = endingRequests({
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
