import { AppError } from "../../shared/errors/app-error.ts";
import type { JobCall } from "../../shared/job-call/job-call.ts";
import type { Hold } from "../../shared/queue/hold.ts";

/** A call as the runner is to get it: the stored call, checked, and the bytes of its body. */
export type DeliveredCall = { readonly call: JobCall; readonly body: Buffer };

/**
 * Hands a call to a runner. Resolves when the runner owns it; must tolerate seeing the same `call.id` again. A thrown
 * AppError decides by its code: retryable ones are tried again after `retryAfterMs` or the backoff, whichever is longer,
 * others fail the call; `runner.throttled` and `runner.busy` only delay it. Anything else thrown is tried again.
 * `hold` can be lost before that, and `hold.signal` is aborted then: the call is another worker's, so stop if possible.
 */
export type Inject = (delivered: DeliveredCall, hold: Hold) => Promise<void>;

/** For an `inject` of one's own: this call will never be taken, so it fails at once. */
export class Refused extends AppError {
  constructor(reason: string, options?: { cause?: unknown }) {
    super("runner.refused", { reason, ...options });
  }
}

/** For an `inject` of one's own: not now, but later; no attempt is spent. */
export class NotNow extends AppError {
  constructor(reason: string, retryAfterMs: number) {
    super("runner.busy", { reason, retryAfterMs });
  }
}
