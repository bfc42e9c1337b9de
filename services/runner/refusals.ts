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

export function unavailable(reason: string, cause?: unknown): AppError {
  return new AppError("runner.store_unavailable", { reason, retryAfterMs: 2000, cause });
}
