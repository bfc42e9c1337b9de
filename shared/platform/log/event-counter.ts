import type { Fields, Logger } from "./logger.ts";

const EVERY_MS = 1000;

export type EventCounter = {
  /** Counts one of this key; the fields are logged with the count, and are the same for a key. */
  count(key: string, fields: Fields): void;
  /** Logs what is not logged yet. */
  flush(): void;
};

/**
 * Logs an event once a second for each key, with how many times it happened: a line for each would cost more than an answer
 * that is prepared, and let anybody fill the log.
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
