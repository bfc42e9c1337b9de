import { type Dispatcher, errors } from "undici";
import { AppError, messageOf } from "../../shared/errors/app-error.ts";
import type { ErrorCode } from "../../shared/errors/codes.ts";
import type { Hold } from "../../shared/queue/hold.ts";

export type RunnerResponse = {
  status: number;
  /** The header as sent, if there was one. */
  retryAfter: string | undefined;
  /** The beginning of the body, for the operator. */
  excerpt: string;
};

/**
 * Sends a request and resolves with the response. Rejects also if `hold` is lost or the whole exchange takes longer than
 * `timeoutMs`; a request that has not left by then never leaves. The code of the error says how far it came:
 *
 *   runner.unreachable    no connection was made, so nothing of the request has left
 *   runner.disconnected   the connection broke after the request had begun to leave
 *   runner.timed_out      nothing came back in time after the request had begun to leave
 *   internal.unexpected   this request cannot be sent to anybody
 *
 * It uses undici's dispatcher directly, because the stream that `request()` makes of each body costs as much as all the rest
 * of an injection.
 */
export function exchange(
  dispatcher: Dispatcher,
  request: Dispatcher.DispatchOptions,
  timeoutMs: number,
  hold?: Hold,
): Promise<RunnerResponse> {
  return new Promise((resolve, reject) => {
    if (hold?.lost) return reject(new Error("the call is no longer held"));
    const release = (): void => {
      clearTimeout(timer);
      forget?.();
    };
    const handler = new ResponseHandler({ resolve, reject, release });
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

/** What undici reports before it connects if the request itself is at fault. */
const REQUEST_FAULTS = [errors.InvalidArgumentError, errors.NotSupportedError];

function noResponse(cause: unknown, started: boolean): AppError {
  const reason =
    cause instanceof TimedOut
      ? `no ${started ? "answer" : "connection"} within ${cause.ms} ms`
      : messageOf(cause);
  return new AppError(codeOf(cause, started), { reason, cause });
}

function codeOf(cause: unknown, started: boolean): ErrorCode {
  if (started) return cause instanceof TimedOut ? "runner.timed_out" : "runner.disconnected";
  return REQUEST_FAULTS.some((fault) => cause instanceof fault)
    ? "internal.unexpected"
    : "runner.unreachable";
}

const EXCERPT_CHARS = 300;
/** The rest of a longer response is not read. */
const RESPONSE_BYTES_MAX = 64 * 1024;

type Outcome = { resolve(response: RunnerResponse): void; reject(cause: unknown): void; release(): void };

/** Settles `outcome` once. Of a success it reads only what is needed to use the connection again. */
class ResponseHandler implements Dispatcher.DispatchHandler {
  readonly #outcome: Outcome;
  /** Known as soon as there is a connection: undici gives it right before it writes the request. */
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
    else if (this.#settle()) this.#outcome.reject(noResponse(cause, this.#controller !== undefined));
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
