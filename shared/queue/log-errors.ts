import type { Origin } from "../job-call/job-call.ts";
import type { Logger } from "../log/logger.ts";

const CONNECTION =
  /ECONN|EPIPE|ETIMEDOUT|EAI_AGAIN|ENOTFOUND|Connection is closed|enableOfflineQueue|writeable/;

type Reports = { on(event: "error", listener: (error: Error) => void): unknown };

/** Logs what BullMQ reports, except that Redis is away: the connection says that itself, once, and not per try. */
export function logErrors(source: Reports, { origin, log }: { origin: Origin; log: Logger }): void {
  source.on("error", (error: Error) => {
    if (CONNECTION.test(`${"code" in error ? error.code : ""} ${error.message}`)) return;
    log.warn("queue.error", { origin, reason: error.message });
  });
}
