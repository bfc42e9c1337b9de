import { type AppError, messageOf } from "../../shared/errors/app-error.ts";
import { CODES } from "../../shared/errors/codes.ts";
import type { Logger } from "../../shared/log/logger.ts";
import type { CallStore, Failure } from "./call-store.ts";

export type Forget = (callId: string, failure: Failure) => Promise<void>;

/**
 * Ends a run that gave nothing to remember, so that the next offer runs the call again. Never rejects: what cannot be
 * written down needs no second try, since the lease lapses and this runner may begin its own call anew at once.
 */
export function createForget(calls: CallStore, log: Logger): Forget {
  return async function forget(callId, failure) {
    try {
      await calls.fail(callId, failure);
    } catch (error) {
      log.warn("job.store_delayed", { callId, reason: messageOf(error) });
    }
  };
}

export function toFailure({ code, message }: AppError): Failure {
  return { code, reason: message, status: CODES[code].status };
}
