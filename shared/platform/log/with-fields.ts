import type { Fields, Logger } from "./logger.ts";

/** Returns a logger that adds these fields to every event. */
export function withFields(log: Logger, own: Fields): Logger {
  return {
    info: (event, fields) => log.info(event, { ...own, ...fields }),
    warn: (event, fields) => log.warn(event, { ...own, ...fields }),
    error: (event, fields) => log.error(event, { ...own, ...fields }),
  };
}
