import { type Dispatcher, Pool } from "undici";
import { contentDigest, signMessage } from "../../shared/crypto/message-signature.ts";
import type { Secret } from "../../shared/crypto/secret.ts";
import { AppError, messageOf } from "../../shared/errors/app-error.ts";
import type { ErrorCode } from "../../shared/errors/codes.ts";
import { parseRetryAfter } from "../../shared/http/headers.ts";
import type { Hold } from "../../shared/queue/consume.ts";
import type { Clock } from "../../shared/time/clock.ts";
import type { DeliveredCall, Inject } from "./deliver.ts";

/**
 * What a runner's status means, unless it is 2xx. The code decides what happens to the call (retry-policy.ts):
 *
 *   runner.failed      it is tried again after a backoff, until its attempts are spent
 *   runner.busy        it is tried again after Retry-After, and the attempt does not count
 *   runner.throttled   the same; if several calls in a row are throttled, the whole queue pauses
 *   runner.refused     it fails at once
 */
const CODE_OF_STATUS: Readonly<Record<string, ErrorCode>> = {
  "408": "runner.failed",
  "409": "runner.failed",
  "409 with Retry-After": "runner.busy",
  "425": "runner.failed",
  "429": "runner.throttled",
  "other 4xx": "runner.refused",
};
/** Every status that is not in the table: 3xx, 5xx. */
const OTHER_CODE = "runner.failed";

const CONNECT_TIMEOUT_MS = 2000;

type HttpInject = { inject: Inject; close(): Promise<void> };

/** Injects over HTTP: `POST {url}/jobs/{job_id}` on connections kept alive; redirects are not followed. */
export function createHttpInject({
  url,
  secret,
  timeoutMs,
  connections,
  clock,
}: {
  /** Base URL of the runner. */
  url: string;
  /** Signs each request (RFC 9421); without it requests are unsigned. */
  secret: Secret | undefined;
  /** Time for the whole exchange. */
  timeoutMs: number;
  /** Connections kept alive: as many as calls are injected at once. */
  connections: number;
  clock: Clock;
}): HttpInject {
  const base = new URL(url);
  const basePath = base.pathname.replace(/\/$/, "");
  const pool = new Pool(base.origin, {
    connections,
    pipelining: 1,
    connect: { timeout: Math.min(CONNECT_TIMEOUT_MS, timeoutMs) },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    keepAliveTimeout: 4000,
  });

  async function inject(delivered: DeliveredCall, hold: Hold): Promise<void> {
    const request = toRequest(delivered, basePath, secret, Math.floor(clock() / 1000));
    const response = await exchange(pool, request, timeoutMs, hold).catch(noResponse);
    const error = toError(response, clock());
    if (error !== undefined) throw error;
  }

  return { inject, close: () => pool.destroy() };
}

/**
 * The request that carries a call to a runner: the body and its Content-Type as received, the metadata as headers,
 * `Idempotency-Key` the call id, and a signature over all of them, so that neither job nor caller can be swapped on the way.
 */
function toRequest(
  { call, body }: DeliveredCall,
  basePath: string,
  secret: Secret | undefined,
  createdSec: number,
): Dispatcher.RequestOptions {
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
}

type RunnerResponse = {
  status: number;
  /** The header as sent, if there was one. */
  retryAfter: string | undefined;
  /** The beginning of the body, for the operator. */
  excerpt: string;
};

/** Undefined for 2xx, otherwise the error whose code decides what happens to the call. */
function toError({ status, retryAfter, excerpt }: RunnerResponse, now: number): AppError | undefined {
  if (status >= 200 && status < 300) return undefined;
  const retryAfterMs = parseRetryAfter(retryAfter, now);
  const reason = excerpt === "" ? `${status}` : `${status} ${excerpt}`;
  return new AppError(codeOf(status, retryAfterMs), {
    reason,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  });
}

function codeOf(status: number, retryAfterMs: number | undefined): ErrorCode {
  const withRetryAfter =
    retryAfterMs === undefined ? undefined : CODE_OF_STATUS[`${status} with Retry-After`];
  const other = status >= 400 && status < 500 ? CODE_OF_STATUS["other 4xx"] : undefined;
  return withRetryAfter ?? CODE_OF_STATUS[status] ?? other ?? OTHER_CODE;
}

function noResponse(cause: unknown): never {
  const timedOut = cause instanceof TimedOut || /Timeout/.test(cause instanceof Error ? cause.name : "");
  const connecting = cause instanceof Error && cause.name === "ConnectTimeoutError";
  const code = timedOut && !connecting ? "runner.timed_out" : "runner.unreachable";
  throw new AppError(code, { reason: messageOf(cause), cause });
}

class TimedOut extends Error {
  constructor(ms: number) {
    super(`no answer within ${ms} ms`);
  }
}

const EXCERPT_CHARS = 300;
/** The rest of a longer response is not read. */
const RESPONSE_BYTES_MAX = 64 * 1024;

/**
 * Sends a request and resolves with the response. Rejects with what went wrong, also if `hold` is lost or the whole exchange
 * takes longer than `timeoutMs`; a request that has not left by then never leaves. It uses undici's dispatcher directly,
 * because the stream that `request()` makes of each body costs as much as all the rest of an injection.
 */
function exchange(
  dispatcher: Dispatcher,
  request: Dispatcher.DispatchOptions,
  timeoutMs: number,
  hold: Hold,
): Promise<RunnerResponse> {
  return new Promise((resolve, reject) => {
    if (hold.lost) return reject(new Error("the call is no longer held"));
    const release = (): void => {
      clearTimeout(timer);
      forget();
    };
    const handler = new ResponseHandler({ resolve, reject, release });
    const timer = setTimeout(() => handler.cancel(new TimedOut(timeoutMs)), timeoutMs);
    const forget = hold.onLost((reason) => handler.cancel(reason));
    try {
      dispatcher.dispatch(request, handler);
    } catch (error) {
      handler.cancel(error);
    }
  });
}

type Outcome = { resolve(response: RunnerResponse): void; reject(cause: unknown): void; release(): void };

/** Settles `outcome` once. Of a success it reads only what is needed to use the connection again. */
class ResponseHandler implements Dispatcher.DispatchHandler {
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
    this.#controller?.abort(cause instanceof Error ? cause : new Error(String(cause)));
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
    if (this.#bytes <= RESPONSE_BYTES_MAX) return;
    this.#respond();
    controller.abort(new Error("the answer is too long"));
  }

  onResponseEnd(): void {
    this.#respond();
  }

  onResponseError(_: unknown, error: Error): void {
    this.#fail(error);
  }

  get #succeeded(): boolean {
    return this.#status >= 200 && this.#status < 300;
  }

  /** A success stays a success, whatever happens to the rest of the response. */
  #fail(cause: unknown): void {
    if (this.#succeeded) this.#respond();
    else if (this.#settle()) this.#outcome.reject(cause);
  }

  #respond(): void {
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
