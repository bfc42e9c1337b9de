import { messageOf } from "../../shared/errors/app-error.ts";
import type { Logger } from "../../shared/log/logger.ts";
import { delay } from "../../shared/time/clock.ts";
import { unavailable } from "./refusals.ts";

const PAUSE_MS_MIN = 25;
const PAUSE_MS_MAX = 1000;

type Options = { log: Logger; callId: string; signal: AbortSignal };

/**
 * Repeats an idempotent write until it is on disk, however long Redis is away: what a handler did must not be done again
 * because its end could not be written down. Gives up only when this runner ends (`signal`), with
 * `runner.store_unavailable`.
 */
export async function untilStored<Result>(write: () => Promise<Result>, options: Options): Promise<Result> {
  const { log, callId, signal } = options;
  for (let attempt = 0; ; attempt++) {
    try {
      return await write();
    } catch (cause) {
      const reason = messageOf(cause);
      if (attempt === 0) log.warn("job.store_delayed", { callId, reason });
      if (signal.aborted) throw unavailable(reason, cause);
      await delay(Math.min(PAUSE_MS_MIN * 2 ** attempt, PAUSE_MS_MAX), signal).catch(() => {});
    }
  }
}
