import type { Dispatcher } from "undici";
import type { Hold } from "../../shared/queue/hold.ts";
import type { RunnerAnswer } from "./runner-answer.ts";

const EXCERPT_CHARS = 300;
/** An answer longer than this is not read on. */
const ANSWER_BYTES_MAX = 64 * 1024;

type Limits = {
  /** Time for the whole exchange. */
  timeoutMs: number;
  /** The exchange ends when it is lost. */
  hold: Hold;
};

export class TimedOut extends Error {
  constructor(ms: number) {
    super(`no answer within ${ms} ms`);
  }
}

/**
 * Sends a request and resolves with its answer, of which a success is no longer read than needed to use the connection
 * again. Rejects with what went wrong; a request that has not left by then never leaves. Takes the answer from undici's
 * dispatcher as it comes: `request()` makes a stream of each body, at the price of all the rest of an injection.
 */
export function exchange(
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
