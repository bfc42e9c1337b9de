import type { Fields, Logger } from "./logger.ts";

/** Updates metrics from an event's fields. */
export type Meter = (fields: Fields) => void;

/** Wraps a logger, whose events then also update metrics. So the log and the metrics cannot disagree. */
export function metered(log: Logger, meters: Readonly<Record<string, Meter>>): Logger {
  const through = (write: Logger["info"]): Logger["info"] => {
    return (event, fields = {}) => {
      meters[event]?.(fields);
      write(event, fields);
    };
  };
  return { info: through(log.info), warn: through(log.warn), error: through(log.error) };
}
