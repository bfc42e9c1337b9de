import { type Dispatcher, Pool } from "undici";
import { contentDigest, signMessage } from "../../shared/crypto/message-signature.ts";
import type { Secret } from "../../shared/crypto/secret.ts";
import { AppError, messageOf } from "../../shared/errors/app-error.ts";
import type { ErrorCode } from "../../shared/errors/codes.ts";
import { parseRetryAfter } from "../../shared/http/retry-after.ts";
import type { Hold } from "../../shared/queue/consume.ts";
import type { Clock } from "../../shared/time/clock.ts";
import type { DeliveredCall, Inject } from "./deliver.ts";

type Options = {
  /** Base URL of the runner. */
  url: string;
  /** Signs each request (RFC 9421); without it requests are unsigned. */
  secret: Secret | undefined;
  /** Time for the whole exchange. */
  timeoutMs: number;
  /** Connections kept alive: as many as calls are injected at once. */
  connections: number;
  clock: Clock;
};

type HttpInject = { inject: Inject; close(): Promise<void> };

const CONNECT_TIMEOUT_MS = 2000;

/** Injects over HTTP: `POST {url}/jobs/{job_id}` on connections kept alive; redirects are not followed. */
export function createHttpInject({ url, secret, timeoutMs, connections, clock }: Options): HttpInject {
  const base = new URL(url);
  const pool = new Pool(base.origin, {
    connections,
    pipelining: 1,
    connect: { timeout: Math.min(CONNECT_TIMEOUT_MS, timeoutMs) },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    keepAliveTimeout: 4000,
  });
  const toRequest = createToRequest(base.pathname.replace(/\/$/, ""), secret);

  async function inject(delivered: DeliveredCall, hold: Hold): Promise<void> {
    const request = toRequest(delivered, Math.floor(clock() / 1000));
    const answer = await exchange(pool, request, { timeoutMs, hold }).catch(noAnswer);
    const error = readAnswer(answer, clock());
    if (error !== undefined) throw error;
  }

  return { inject, close: () => pool.destroy() };
}

function noAnswer(cause: unknown): never {
  const timedOut = cause instanceof TimedOut || /Timeout/.test(cause instanceof Error ? cause.name : "");
  const connecting = cause instanceof Error && cause.name === "ConnectTimeoutError";
  const code = timedOut && !connecting ? "runner.timed_out" : "runner.unreachable";
  throw new AppError(code, { reason: messageOf(cause), cause });
}

const EXCERPT_CHARS = 300;
/** An answer longer than this is not read on. */
const ANSWER_BYTES_MAX = 64 * 1024;

type Limits = {
  /** Time for the whole exchange. */
  timeoutMs: number;
  /** The exchange ends when it is lost. */
  hold: Hold;
};

class TimedOut extends Error {
  constructor(ms: number) {
    super(`no answer within ${ms} ms`);
  }
}

/**
 * Sends a request and resolves with its answer, of which a success is no longer read than needed to use the connection
 * again. Rejects with what went wrong; a request that has not left by then never leaves. Takes the answer from undici's
 * dispatcher as it comes: `request()` makes a stream of each body, at the price of all the rest of an injection.
 */
function exchange(
  dispatcher: Dispatcher,
  request: Dispatcher.DispatchOptions,
  { timeoutMs, hold }: Limits,
): Promise<RunnerAnswer> {
  return new Promise((resolve, reject) => {
    if (hold.lost) return reject(new Error("the call is no longer held"));
    const release = (): void => {
      clearTimeout(timer);
      forget();
    };
    const handler = new AnswerHandler({ resolve, reject, release });
    const timer = setTimeout(() => handler.cancel(new TimedOut(timeoutMs)), timeoutMs);
    const forget = hold.onLost((reason) => handler.cancel(reason));
    try {
      dispatcher.dispatch(request, handler);
    } catch (error) {
      handler.cancel(error);
    }
  });
}

type Outcome = { resolve(answer: RunnerAnswer): void; reject(cause: unknown): void; release(): void };

class AnswerHandler implements Dispatcher.DispatchHandler {
  readonly #outcome: Outcome;
  #controller: Dispatcher.DispatchController | undefined;
  #settled = false;
  #status = 0;
  #retryAfter: string | undefined;
  #text = "";
  #bytes = 0;

  constructor(outcome: Outcome) {
    this.#outcome = outcome;
  }

  cancel(cause: unknown): void {
    this.#fail(cause);
    this.#controller?.abort(toError(cause));
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#settled) controller.abort(new Error("the exchange has ended before it began"));
  }

  onResponseStart(_: unknown, status: number, headers: Record<string, string | string[] | undefined>): void {
    if (status < 200) return;
    this.#status = status;
    const retryAfter = headers["retry-after"];
    this.#retryAfter = Array.isArray(retryAfter) ? retryAfter[0] : retryAfter;
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (!this.#succeeded && this.#text.length < EXCERPT_CHARS) this.#text += chunk.toString("utf8");
    if (this.#bytes <= ANSWER_BYTES_MAX) return;
    this.#answer();
    controller.abort(new Error("the answer is too long"));
  }

  onResponseEnd(): void {
    this.#answer();
  }

  onResponseError(_: unknown, error: Error): void {
    this.#fail(error);
  }

  get #succeeded(): boolean {
    return this.#status >= 200 && this.#status < 300;
  }

  /** Once a success has been said, nothing that happens to the rest of the answer takes it back. */
  #fail(cause: unknown): void {
    if (this.#succeeded) this.#answer();
    else if (this.#settle()) this.#outcome.reject(cause);
  }

  #answer(): void {
    if (!this.#settle()) return;
    const excerpt = this.#text.slice(0, EXCERPT_CHARS).replaceAll(/\s+/g, " ").trim();
    this.#outcome.resolve({ status: this.#status, retryAfter: this.#retryAfter, excerpt });
  }

  #settle(): boolean {
    if (this.#settled) return false;
    this.#settled = true;
    this.#outcome.release();
    return true;
  }
}

function toError(cause: unknown): Error {
  return cause instanceof Error ? cause : new Error(String(cause));
}

type RunnerAnswer = {
  status: number;
  /** As sent, if it was. */
  retryAfter: string | undefined;
  /** The first of the answer's body, for the operator. */
  excerpt: string;
};

/** Resolves what a runner's answer means: nothing for 2xx, else the error that says what becomes of the call. */
function readAnswer({ status, retryAfter, excerpt }: RunnerAnswer, now: number): AppError | undefined {
  if (status >= 200 && status < 300) return undefined;
  const retryAfterMs = parseRetryAfter(retryAfter, now);
  const reason = excerpt === "" ? `${status}` : `${status} ${excerpt}`;
  return new AppError(codeOf(status, retryAfterMs), {
    reason,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  });
}

function codeOf(status: number, retryAfterMs: number | undefined): ErrorCode {
  if (status === 429) return "runner.throttled";
  if (status === 409 && retryAfterMs !== undefined) return "runner.busy";
  if (status === 408 || status === 409 || status === 425) return "runner.failed";
  return status >= 400 && status < 500 ? "runner.refused" : "runner.failed";
}

/**
 * The request that carries a call to a runner: the body as received, its Content-Type as received, the metadata as
 * headers, `Idempotency-Key` the call id, and a signature over all of them, so that neither job nor caller can be
 * swapped on the way.
 */
function createToRequest(basePath: string, secret: Secret | undefined) {
  return function toRequest({ call, body }: DeliveredCall, createdSec: number): Dispatcher.RequestOptions {
    const path = `${basePath}/jobs/${call.job_id}`;
    const covered: Record<string, string> = {
      "content-digest": contentDigest(call.sha256),
      ...(call.content_type !== undefined && { "content-type": call.content_type }),
      "idempotency-key": call.id,
    };
    for (const key in call.metadata) covered[key.toLowerCase()] = call.metadata[key] as string;
    const signature = secret && signMessage(secret, { method: "POST", path, headers: covered }, createdSec);
    const headers: Record<string, string> = { ...covered, ...signature };
    if (call.traceparent !== undefined) headers["traceparent"] = call.traceparent;
    return { method: "POST", path, headers, body };
  };
}
