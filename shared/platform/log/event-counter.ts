import type { Fields, Logger } from "./logger.ts";

const EVERY_MS = 1000;

export type EventCounter = {
  /** Counts one event of this key. The fields are logged with the count, and must be the same for the same key. */
  count(key: string, fields: Fields): void;
  /** Logs at once the counts that have not been logged yet. */
  flush(): void;
};

/**
 * Counts events and logs each key once a second with its count. With a line per event, logging could cost more
 * than the answer to a request, and a stranger could fill the log.
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
