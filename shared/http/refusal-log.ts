import type { AppError } from "../platform/errors/app-error.ts";
import type { ErrorCode } from "../platform/errors/codes.ts";
import type { Fields, Logger } from "../platform/log/logger.ts";
import { logRefused } from "./problem.ts";

export type RefusalLog = {
  /** Counts and logs a refusal. Call it after the answer. */
  note(error: AppError, fields: Fields): void;
  /** Logs the refusals that are not logged yet. */
  flush(): void;
};

const EVERY_MS = 1000;

type Refusal = { error: AppError; fields: Fields };

/** Number of refusals with one code since the last log line for this code, and the newest of them. */
type Unlogged = { times: number; newest: Refusal | undefined };

/**
 * Logs refusals, at most one line a second for each code. With a line for each refusal, a stranger could fill the log.
 * The first refusal with a code is logged at once, with `times` 1. Each later line shows the newest refusal, and
 * `times` counts all refusals since the previous line. So the sum of `times` is exact.
 */
export function createRefusalLog(log: Logger, event: string): RefusalLog {
  const unlogged = new Map<ErrorCode, Unlogged>();
  let timer: NodeJS.Timeout | undefined;

  function write({ error, fields }: Refusal, times: number): void {
    logRefused(log, event, error, { ...fields, times });
  }

  /**
   * Writes a line for each code with new refusals since its last line. Codes without new refusals are forgotten, so
   * that their next refusal is logged at once.
   */
  function logAccumulated(): void {
    timer = undefined;
    for (const [code, { times, newest }] of unlogged) {
      if (newest === undefined) unlogged.delete(code);
      else {
        write(newest, times);
        unlogged.set(code, { times: 0, newest: undefined });
      }
    }
    if (unlogged.size > 0) timer = setTimeout(logAccumulated, EVERY_MS);
  }

  return {
    note(error, fields) {
      const refusal = { error, fields };
      const known = unlogged.get(error.code);
      if (known !== undefined) {
        known.times += 1;
        known.newest = refusal;
        return;
      }
      unlogged.set(error.code, { times: 0, newest: undefined });
      write(refusal, 1);
      timer ??= setTimeout(logAccumulated, EVERY_MS);
    },
    flush() {
      clearTimeout(timer);
      logAccumulated();
      clearTimeout(timer);
      unlogged.clear();
    },
  };
}
