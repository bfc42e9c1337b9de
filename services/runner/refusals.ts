import { AppError } from "../../shared/errors/app-error.ts";

export function busy(callId: string): AppError {
  return new AppError("runner.busy", { reason: `${callId} is running`, retryAfterMs: 1000 });
}

export function reused(callId: string): AppError {
  const detail = "the Idempotency-Key stands for another job or other bytes";
  return new AppError("runner.key_reused", { reason: `${detail}: ${callId}`, publicDetail: detail });
}

export function throttled(concurrency: number): AppError {
  return new AppError("runner.throttled", { reason: `${concurrency} calls run already`, retryAfterMs: 1000 });
}

export function draining(): AppError {
  return new AppError("service.draining", { reason: "the runner stops", retryAfterMs: 1000 });
}

export function unknownCall(callId: string): AppError {
  return new AppError("request.not_found", { reason: `no call ${callId} is remembered` });
}

/** `found` is what it is instead, in the words of the store. */
export function notFailed(callId: string, found: string): AppError {
  const detail = `only a failed long call can be run again; this is a ${found.toLowerCase()} one`;
  return new AppError("runner.busy", { reason: `${callId}: ${detail}`, publicDetail: detail });
}

export function unavailable(reason: string, cause?: unknown): AppError {
  return new AppError("runner.store_unavailable", { reason, retryAfterMs: 2000, cause });
}
