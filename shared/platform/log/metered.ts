import type { Fields, Logger } from "./logger.ts";

/** What an event adds to a count. */
export type Meter = (fields: Fields) => void;

/** A logger whose events are also counted, so that log and counts cannot disagree. */
export function metered(log: Logger, meters: Readonly<Record<string, Meter>>): Logger {
  const through = (write: Logger["info"]): Logger["info"] => {
    return (event, fields = {}) => {
      meters[event]?.(fields);
      write(event, fields);
    };
  };
  return { info: through(log.info), warn: through(log.warn), error: through(log.error) };
}
