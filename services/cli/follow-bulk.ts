import type { BulkView } from "../../shared/console/bulk-operations.ts";
import type { Operations } from "../../shared/console/contract/contract.ts";
import { AppError, messageOf } from "../../shared/platform/errors/app-error.ts";
import { CODES, isErrorCode } from "../../shared/platform/errors/codes.ts";
import { delay, systemClock } from "../../shared/platform/time/clock.ts";
import { NoAnswer } from "./console/client.ts";

const POLL_MS = 250;
/**
 * Time for which the console may be unreachable before the command gives up, for example during a restart. The
 * operation runs in the console, and continues after its restart.
 */
const AWAY_MS = 60_000;

type Following<View> = { signal?: AbortSignal; onProgress?: (view: View) => void };

/**
 * Polls a bulk operation until it ends, and resolves with its last view. When the signal aborts, cancels the operation,
 * and then still waits until it has ended. If the console stops answering, throws an error with the operation's id,
 * because the operation may still be running.
 */
export async function followBulk<View extends BulkView>(
  operations: Operations,
  begun: View,
  { signal, onProgress }: Following<View> = {},
): Promise<View> {
  const asked = { run_id: begun.id };
  let view = begun;
  let isCancelled = false;
  let heardAt = systemClock();
  for (let pauseMs = 10; view.ended_at === null; pauseMs = Math.min(POLL_MS, 2 * pauseMs)) {
    await delay(pauseMs);
    const cancels: boolean = signal?.aborted === true && !isCancelled;
    try {
      view = (await operations[cancels ? "cancelBulk" : "getBulk"](asked)) as View;
    } catch (error) {
      if (isTransient(error) && systemClock() - heardAt < AWAY_MS) continue;
      throw new Error(
        `${messageOf(error)}; ${begun.id} may still be running: GET /api/v1/bulk/${begun.id} shows its progress`,
        { cause: error },
      );
    }
    heardAt = systemClock();
    isCancelled ||= cancels;
    onProgress?.(view);
  }
  return view;
}

function isTransient(error: unknown): boolean {
  return error instanceof NoAnswer || (error instanceof AppError && CODES[error.code].retryable);
}

/** Returns the error that stopped the operation before its end. Undefined if no error did. */
export function failureOf({ failure }: BulkView): AppError | undefined {
  if (failure === null) return undefined;
  const code = isErrorCode(failure.code) ? failure.code : "internal.unexpected";
  return new AppError(code, { reason: failure.reason });
}
