import type { Fields, Logger } from "./logger.ts";

const EVERY_MS = 1000;

export type EventCounter = {
  /**
   * Counts one event under this key. The fields are logged with the count, so all events of a key must have the same
   * fields.
   */
  count(key: string, fields: Fields): void;
  /** Logs at once the counts that have not been logged yet. */
  flush(): void;
};

/**
 * Creates a counter of events. It logs at most one line a second for each key, with the number of its events. With a
 * line per event, logging could cost more than the answer to a request, and a stranger could fill the log.
 */
export function createEventCounter(
  log: Logger,
  event: string,
  level: "info" | "warn" = "info",
): EventCounter {
  const counts = new Map<string, { fields: Fields; times: number }>();
  let timer: NodeJS.Timeout | undefined;

  function flush(): void {
    clearTimeout(timer);
    timer = undefined;
    for (const { fields, times } of counts.values()) log[level](event, { ...fields, times });
    counts.clear();
  }

  return {
    count(key, fields) {
      const known = counts.get(key);
      if (known === undefined) counts.set(key, { fields, times: 1 });
      else known.times += 1;
      timer ??= setTimeout(flush, EVERY_MS);
    },
    flush,
  };
}
