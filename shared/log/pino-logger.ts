import { pino } from "pino";
import { PinoPretty } from "pino-pretty";
import { batchedLines } from "./batched-lines.ts";
import type { Fields, Logger } from "./logger.ts";

export type ProcessLogger = Logger & {
  /** Writes what is still in memory; the last thing a process does. */
  flush(): void;
};

/**
 * JSON lines on stdout, or readable lines on a terminal. Lines are written behind the caller's back, many at a time under
 * load, so that a log line costs a request no system call; a killed process may lose its last lines. On stderr, beside
 * what a command says there itself, each line is written at once and so in order.
 */
export function createProcessLogger(
  service: string,
  options: { pretty: boolean; level?: string; to?: "stdout" | "stderr" },
): ProcessLogger {
  const destination = options.pretty
    ? PinoPretty({
        sync: true,
        ignore: "pid,hostname,service",
        messageKey: "event",
        translateTime: "HH:MM:ss.l",
      })
    : options.to === "stderr"
      ? pino.destination({ fd: 2, sync: true })
      : batchedLines(pino.destination({ fd: 1, sync: false }));
  if ("flushSync" in destination) process.once("exit", () => destination.flushSync());
  const log = pino(
    {
      base: { service, pid: process.pid },
      messageKey: "event",
      level: options.level ?? "info",
      formatters: { level: (label) => ({ level: label }) },
      timestamp: pino.stdTimeFunctions.isoTime,
    },
    destination,
  );
  return {
    info: (event, fields: Fields = {}) => log.info(fields, event),
    warn: (event, fields: Fields = {}) => log.warn(fields, event),
    error: (event, fields: Fields = {}) => log.error(fields, event),
    flush: () => "flushSync" in destination && destination.flushSync(),
  };
}
