import type { JobIds } from "../../../shared/job-call/job-ids.ts";
import type { Logger } from "../../../shared/log/logger.ts";
import { jobPath } from "../route.ts";

const EVERY_MS = 1000;

export type AskedTally = ReturnType<typeof createAskedTally>;

/**
 * Counts the requests that were told to pay, and logs each job's count once a second: a line for each would cost more than
 * its answer, and let anybody fill the log.
 */
export function createAskedTally(log: Logger) {
  const counts = new Map<string, { ids: JobIds; times: number }>();
  let timer: NodeJS.Timeout | undefined;

  function flush(): void {
    clearTimeout(timer);
    timer = undefined;
    for (const { ids, times } of counts.values()) {
      log.info("payment.asked_for", { serviceId: ids.serviceId, jobIndex: ids.jobIndex, times });
    }
    counts.clear();
  }

  return {
    count(ids: JobIds): void {
      const path = jobPath(ids);
      const known = counts.get(path);
      if (known === undefined) counts.set(path, { ids, times: 1 });
      else known.times += 1;
      timer ??= setTimeout(flush, EVERY_MS);
    },
    /** Logs what is counted, at once. */
    flush,
  };
}
