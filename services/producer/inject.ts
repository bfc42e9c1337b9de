import type { JobCall } from "../../shared/job-call/job-call.ts";

/** A call as the runner is to get it: the stored call, checked, and the bytes of its body. */
export type DeliveredCall = { readonly call: JobCall; readonly body: Buffer };

/**
 * Hands a call to a runner. Resolves when the runner owns it; must tolerate seeing the same `call.id` again. A thrown
 * AppError decides by its code: retryable ones are tried again after `retryAfterMs` or the backoff, whichever is longer,
 * others park the call; `runner.throttled` and `runner.busy` only delay it. Anything else thrown is tried again.
 * `signal` is aborted when this worker no longer holds the call.
 */
export type Inject = (delivered: DeliveredCall, signal: AbortSignal) => Promise<void>;
