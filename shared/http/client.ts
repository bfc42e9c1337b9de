import type { Dispatcher, Pool } from "undici";
import { type Attributes, inSpan, tracer } from "../platform/traces/tracer.ts";

const CONNECT_TIMEOUT_MS = 3000;

type Options = {
  /** Base URL of all requests, without a user and password. */
  base: URL;
  /** Headers of every request. */
  headers: Readonly<Record<string, string>>;
  /** Limit on an answer's body. Longer answers are not read to their end. */
  answerBytesMax: number;
  /** Trusted certificate authorities in PEM, instead of the system's. */
  ca?: string | undefined;
};

type ExchangeRequest = {
  path: string;
  body: string | undefined;
  /** Time limit for the connection, the request and the whole answer. */
  timeoutMs: number;
  /** Aborted when the answer is no longer needed. */
  signal?: AbortSignal | undefined;
  /** Headers of this request only. They override those of every request. */
  headers?: Readonly<Record<string, string>>;
  /** Overrides the client's limit. */
  answerBytesMax?: number;
  /** Name and attributes of the request's span. A span is recorded only if the caller is part of a trace. */
  span?: { name: string; attributes: Attributes };
};

/** `text` is undefined if the answer is too long. */
export type HttpAnswer = {
  status: number;
  headers: Dispatcher.ResponseData["headers"];
  text: string | undefined;
};

export type HttpClient = {
  /**
   * Sends a POST if there is a body, otherwise a GET. Rejects with a `TimeoutError` after `timeoutMs`, or with the
   * signal's reason.
   */
  exchange(exchangeRequest: ExchangeRequest): Promise<HttpAnswer>;
  close(): Promise<void>;
};

/**
 * Sends requests to one server and reads the answers as text. Connections are kept alive. Each concurrent request has
 * its own connection, so that none waits for another. Requests are never repeated, and redirects are not followed.
 */
export function createHttpClient({
  base,
  headers: common,
  answerBytesMax: usualMax,
  ca,
}: Options): HttpClient {
  let pool: Promise<Pool> | undefined;
  return {
    async exchange({ path, body, headers: own, answerBytesMax = usualMax, span: wanted, ...limits }) {
      const method = body === undefined ? "GET" : "POST";
      const headers = own === undefined ? common : { ...common, ...own };
      pool ??= openPool(base, ca);
      const opened = pool;
      const span = tracer?.current() && wanted && tracer.start({ kind: "client", ...wanted });
      return inSpan(span, async () => {
        const request = { method, path, headers, body: body ?? null } as const;
        const answer = await send(await opened, request, { ...limits, answerBytesMax });
        const { status } = answer;
        span?.set({ "http.request.method": method, "http.response.status_code": status });
        if (status >= 400) span?.fail(String(status));
        return answer;
      });
    },
    close: async () => (await pool)?.destroy(),
  };
}

/**
 * Loads undici only for the first request, because loading takes 30 ms of processor time and most commands of the CLI
 * send no request.
 */
async function openPool(base: URL, ca: string | undefined): Promise<Pool> {
  const [undici, { createConnector }] = await Promise.all([import("undici"), import("./connector.ts")]);
  return new undici.Pool(base.origin, {
    pipelining: 1,
    connect: createConnector({ timeout: CONNECT_TIMEOUT_MS, ...(ca !== undefined && { ca }) }),
  });
}

/** Name of the error of a request that passed its deadline. `AbortSignal.timeout` uses the same name. */
const TIMEOUT = "TimeoutError";

/** Returns whether a request failed because of its deadline. */
export function isTimeout(error: unknown): boolean {
  return error instanceof Error && error.name === TIMEOUT;
}

type Limits = Pick<ExchangeRequest, "timeoutMs" | "signal"> & { answerBytesMax: number };

function send(pool: Pool, request: Dispatcher.DispatchOptions, limits: Limits): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    pool.dispatch(request, new Exchange(limits, resolve, reject));
  });
}

/**
 * Sends one request and collects its answer. The promise settles once. This class uses undici's dispatcher directly,
 * because the stream that undici's `request()` makes of each body costs more than the rest of a short request. A plain
 * timer replaces `AbortSignal.timeout`, which would cost as much as that stream.
 */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #limits: Limits;
  readonly #resolve: (answer: HttpAnswer) => void;
  readonly #reject: (cause: unknown) => void;
  readonly #timer: NodeJS.Timeout;
  readonly #onAbort = () => this.#cancel(this.#limits.signal?.reason);
  /** Undefined until the request has a connection. */
  #controller: Dispatcher.DispatchController | undefined;
  #isSettled = false;
  #head: Pick<HttpAnswer, "status" | "headers"> = { status: 0, headers: {} };
  #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(limits: Limits, resolve: (answer: HttpAnswer) => void, reject: (cause: unknown) => void) {
    const { timeoutMs, signal } = limits;
    this.#limits = limits;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#timer = setTimeout(() => this.#cancel(new DOMException("no answer in time", TIMEOUT)), timeoutMs);
    signal?.addEventListener("abort", this.#onAbort);
    if (signal?.aborted) this.#onAbort();
  }

  #cancel(cause: unknown): void {
    if (this.#settle()) this.#reject(cause);
    this.#controller?.abort(cause instanceof Error ? cause : new Error(String(cause)));
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#isSettled) controller.abort(new Error("the exchange was cancelled before it began"));
  }

  onResponseStart(_: unknown, status: number, headers: HttpAnswer["headers"]): void {
    this.#head = { status, headers };
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#isSettled) return;
    this.#bytes += chunk.length;
    this.#chunks.push(chunk);
    if (this.#bytes <= this.#limits.answerBytesMax) return;
    if (this.#settle()) this.#resolve({ ...this.#head, text: undefined });
    controller.abort(new Error("the answer is too long"));
  }

  onResponseEnd(): void {
    if (!this.#settle()) return;
    this.#resolve({ ...this.#head, text: Buffer.concat(this.#chunks).toString("utf8") });
  }

  onResponseError(_: unknown, error: Error): void {
    if (this.#settle()) this.#reject(error);
  }

  #settle(): boolean {
    if (this.#isSettled) return false;
    this.#isSettled = true;
    clearTimeout(this.#timer);
    this.#limits.signal?.removeEventListener("abort", this.#onAbort);
    return true;
  }
}
