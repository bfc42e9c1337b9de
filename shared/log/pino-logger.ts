import { pino } from "pino";
import { PinoPretty } from "pino-pretty";
import type { Fields, Logger } from "./logger.ts";

export type ProcessLogger = Logger & {
  /** Writes the lines still in memory; the last thing a process does. */
  flush(): void;
};

/**
 * JSON lines on stdout, or readable lines on a terminal. Lines are written later, many at a time under load, so that a line
 * costs a request no system call; a killed process may lose its last lines. On stderr, among a command's own messages, each
 * line is written at once.
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

type Sink = { write(text: string): unknown; flushSync(): void };

type BatchedLines = Sink & { write(line: string): void };

const GATHER_MS = 20;

/** Gathers lines for a moment, so that under load one write takes many of them. */
function batchedLines(sink: Sink): BatchedLines {
  let gathered = "";
  let timer: NodeJS.Timeout | undefined;
  const pass = (): void => {
    timer = undefined;
    if (gathered === "") return;
    sink.write(gathered);
    gathered = "";
  };
  return {
    write(line) {
      gathered += line;
      timer ??= setTimeout(pass, GATHER_MS).unref();
    },
    flushSync() {
      clearTimeout(timer);
      pass();
      sink.flushSync();
    },
  };
}
