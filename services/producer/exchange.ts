import { type Dispatcher, errors } from "undici";
import { AppError, messageOf } from "../../shared/platform/errors/app-error.ts";
import type { DeliveryCode } from "../../shared/platform/errors/codes.ts";
import { cut } from "../../shared/platform/text/cut.ts";
import type { Hold } from "./consumer/hold.ts";

export type RunnerResponse = {
  status: number;
  /** Returns the value of the first header with this name. The name must be in lower case. */
  header(name: string): string | undefined;
  /** The body, at most up to its limit, if it must be kept or the answer is an error. Otherwise empty. */
  body: Buffer;
  /** True if the body is longer than its limit. */
  isTooLong: boolean;
  /** True if the answer is a success, but its body is incomplete. */
  isBroken: boolean;
  /** The beginning of the body of an error, for the operator. */
  excerpt: string;
};

/** Limits of one request and its response. */
export type ExchangeLimits = {
  timeoutMs: number;
  /** Limit on the body of a result; undefined if no result is kept. */
  keepBytesMax?: number | undefined;
  /**
   * Limit on the body of a successful answer that is kept together with the delivered call, but not as a result. Undefined if
   * the body is not kept. If such a body is incomplete, the request still succeeds, with `isBroken`.
   */
  copyBytesMax?: number | undefined;
};

/**
 * Sends a request and resolves with the response. Rejects if this fails or takes longer than `timeoutMs`, or if `hold` is
 * lost. A request that was not sent before the rejection is never sent. The error's code says how far the request came:
 *
 *   runner.unreachable    no connection was made, so no part of the request was sent
 *   runner.disconnected   the connection broke after sending had begun
 *   runner.timed_out      no answer came in time after sending had begun
 *   runner.answer_broken  the answer was a success whose body must be kept, but the body was incomplete
 *   internal.unexpected   this request cannot be sent to any server
 *
 * The function uses undici's dispatcher directly, because `request()` creates a stream for each body, which costs as much as
 * the rest of an injection.
 */
export function exchange(
  dispatcher: Dispatcher,
  request: Dispatcher.DispatchOptions,
  limits: ExchangeLimits,
  hold?: Hold,
): Promise<RunnerResponse> {
  const { timeoutMs } = limits;
  return new Promise((resolve, reject) => {
    if (hold?.lost) return reject(new Error("the lease on the call was lost"));
    const release = (): void => {
      clearTimeout(timer);
      forget?.();
    };
    const handler = new ResponseHandler({ resolve, reject, release }, limits);
    const timer = setTimeout(() => handler.cancel(new TimedOut(timeoutMs)), timeoutMs);
    const forget = hold?.onLost((reason) => handler.cancel(reason));
    try {
      dispatcher.dispatch(request, handler);
    } catch (error) {
      handler.cancel(error);
    }
  });
}

class TimedOut extends Error {
  readonly ms: number;

  constructor(ms: number) {
    super(`cancelled after ${ms} ms`);
    this.ms = ms;
  }
}

/** Errors by which undici refuses an invalid request before it connects. */
const REQUEST_FAULTS = [errors.InvalidArgumentError, errors.NotSupportedError];

function broken(status: number, cause: unknown): AppError {
  const how = cause instanceof TimedOut ? `not complete within ${cause.ms} ms` : messageOf(cause);
  return new AppError("runner.answer_broken", { reason: `${status}, but its body broke off: ${how}`, cause });
}

function noResponse(cause: unknown, started: boolean): AppError {
  const reason =
    cause instanceof TimedOut
      ? `no ${started ? "answer" : "connection"} within ${cause.ms} ms`
      : messageOf(cause);
  return new AppError(codeOf(cause, started), { reason, cause });
}

function codeOf(cause: unknown, started: boolean): DeliveryCode {
  if (started) return cause instanceof TimedOut ? "runner.timed_out" : "runner.disconnected";
  return REQUEST_FAULTS.some((fault) => cause instanceof fault)
    ? "internal.unexpected"
    : "runner.unreachable";
}

const EXCERPT_CHARS = 300;
/** Maximum number of bytes that are read of a body if the answer is an error, or if its body is not kept. */
const RESPONSE_BYTES_MAX = 64 * 1024;

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

/** Returns whether the body is a result. The body of a 202 is not a result, and is not kept. */
function hasResult(status: number): boolean {
  return isSuccess(status) && status !== 202;
}

type Headers = Readonly<Record<string, string | string[] | undefined>>;

type Outcome = { resolve(response: RunnerResponse): void; reject(cause: unknown): void; release(): void };

/**
 * Resolves or rejects `outcome` once. Reads at most `#bytesMax` bytes of the body. A body that is not kept is read so that
 * the connection can be reused.
 */
class ResponseHandler implements Dispatcher.DispatchHandler {
  readonly #outcome: Outcome;
  readonly #limits: ExchangeLimits;
  /**
   * Undici passes the controller right before it writes the request. So while it is undefined, there is no connection, and
   * nothing was sent.
   */
  #controller: Dispatcher.DispatchController | undefined;
  #settled = false;
  #status = 0;
  #headers: Headers = {};
  #chunks: Buffer[] = [];
  #bytes = 0;
  #isBroken = false;

  constructor(outcome: Outcome, limits: ExchangeLimits) {
    this.#outcome = outcome;
    this.#limits = limits;
  }

  cancel(cause: unknown): void {
    this.#fail(cause);
    this.#controller?.abort(cause instanceof Error ? cause : new Error(String(cause)));
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#settled) controller.abort(new Error("the request was cancelled before it began"));
  }

  onResponseStart(_: unknown, status: number, headers: Headers): void {
    this.#status = status;
    this.#headers = headers;
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#settled) return;
    this.#bytes += chunk.length;
    if (this.#keepsBody || this.#copiesBody || !isSuccess(this.#status)) this.#chunks.push(chunk);
    if (this.#bytes <= this.#bytesMax) return;
    this.#respond();
    controller.abort(new Error("the answer is too long"));
  }

  onResponseEnd(): void {
    this.#respond();
  }

  onResponseError(_: unknown, error: Error): void {
    this.#fail(error);
  }

  get #keepsBody(): boolean {
    return this.#limits.keepBytesMax !== undefined && hasResult(this.#status);
  }

  get #copiesBody(): boolean {
    return this.#limits.copyBytesMax !== undefined && isSuccess(this.#status);
  }

  get #bytesMax(): number {
    const { keepBytesMax, copyBytesMax } = this.#limits;
    const most = this.#keepsBody ? keepBytesMax : this.#copiesBody ? copyBytesMax : undefined;
    return most ?? RESPONSE_BYTES_MAX;
  }

  /**
   * Handles an error or a cancellation. A 2xx response stays a success if the rest of it fails, unless its body must be kept.
   */
  #fail(cause: unknown): void {
    if (this.#keepsBody) {
      if (this.#settle()) this.#outcome.reject(broken(this.#status, cause));
    } else if (isSuccess(this.#status)) {
      this.#isBroken = true;
      this.#respond();
    } else if (this.#settle()) this.#outcome.reject(noResponse(cause, this.#controller !== undefined));
  }

  #respond(): void {
    if (!this.#settle()) return;
    const headers = this.#headers;
    const body = Buffer.concat(this.#chunks);
    this.#chunks = [];
    this.#outcome.resolve({
      status: this.#status,
      header(name) {
        const value = headers[name];
        return Array.isArray(value) ? value[0] : value;
      },
      body,
      isTooLong: this.#bytes > this.#bytesMax,
      isBroken: this.#isBroken,
      excerpt: isSuccess(this.#status) ? "" : excerptOf(body),
    });
  }

  #settle(): boolean {
    if (this.#settled) return false;
    this.#settled = true;
    this.#outcome.release();
    return true;
  }
}

function excerptOf(body: Buffer): string {
  // A character has at most four bytes.
  const text = body.toString("utf8", 0, 4 * EXCERPT_CHARS);
  return cut(text, EXCERPT_CHARS).replaceAll(/\s+/g, " ").trim();
}
