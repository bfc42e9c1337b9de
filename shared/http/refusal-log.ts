import type { AppError } from "../platform/errors/app-error.ts";
import type { ErrorCode } from "../platform/errors/codes.ts";
import type { Fields, Logger } from "../platform/log/logger.ts";
import { logRefused } from "./problem.ts";

export type RefusalLog = {
  /** Call it after the answer. */
  note(error: AppError, fields: Fields): void;
  /** Logs what is not logged yet. */
  flush(): void;
};

const EVERY_MS = 1000;

type Refusal = { error: AppError; fields: Fields };

/** The refusals with one code since the last line that told of them, and the newest of them. */
type Untold = { times: number; newest: Refusal | undefined };

/**
 * Logs refusals, of each code one line a second: a line for each would let anybody fill the log. The first is logged at once, with
 * `times` 1; a later line has the newest, and in `times` how many it stands for, so that the sum is exact.
 */
export function createRefusalLog(log: Logger, event: string): RefusalLog {
  const untold = new Map<ErrorCode, Untold>();
  let timer: NodeJS.Timeout | undefined;

  function write({ error, fields }: Refusal, times: number): void {
    logRefused(log, event, error, { ...fields, times });
  }

  /** Forgets the codes of which nothing was to be told: their next refusal is logged at once. */
  function tell(): void {
    timer = undefined;
    for (const [code, { times, newest }] of untold) {
      if (newest === undefined) untold.delete(code);
      else {
        write(newest, times);
        untold.set(code, { times: 0, newest: undefined });
      }
    }
    if (untold.size > 0) timer = setTimeout(tell, EVERY_MS);
  }

  return {
    note(error, fields) {
      const refusal = { error, fields };
      const known = untold.get(error.code);
      if (known !== undefined) {
        known.times += 1;
        known.newest = refusal;
        return;
      }
      untold.set(error.code, { times: 0, newest: undefined });
      write(refusal, 1);
      timer ??= setTimeout(tell, EVERY_MS);
    },
    flush() {
      clearTimeout(timer);
      tell();
      clearTimeout(timer);
      untold.clear();
    },
  };
}
