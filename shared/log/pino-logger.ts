import { writeSync } from "node:fs";
import { pino } from "pino";
import { PinoPretty } from "pino-pretty";
import type { Fields, Logger } from "./logger.ts";

export type ProcessLogger = Logger & {
  /** Writes the lines still in memory; the last thing a process does. */
  flush(): void;
};

const STDOUT = 1;

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
      : batchedLines(pino.destination({ fd: STDOUT, sync: false }), STDOUT);
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

type BatchedLines = { write(line: string): void; flushSync(): void };

const GATHER_MS = 20;

/** Gathers lines for a moment, and for as long as a write is under way, so that under load one write takes many of them. */
function batchedLines(sink: ReturnType<typeof pino.destination>, fd: number): BatchedLines {
  let gathered = "";
  let timer: NodeJS.Timeout | undefined;
  let state: "idle" | "writing" | "unread" = "idle";
  sink.on("drain", () => {
    state = "idle";
  });
  sink.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    state = "unread";
  });
  const take = (): string => {
    const lines = gathered;
    gathered = "";
    return lines;
  };
  const pass = (): void => {
    timer = state === "writing" ? setTimeout(pass, GATHER_MS).unref() : undefined;
    if (state !== "idle" || gathered === "") return;
    state = "writing";
    sink.write(take());
  };
  return {
    write(line) {
      if (state === "unread") return;
      gathered += line;
      timer ??= setTimeout(pass, GATHER_MS).unref();
    },
    /** Not by the sink, which would try forever to write what nobody reads any more. */
    flushSync() {
      clearTimeout(timer);
      timer = undefined;
      writeAll(fd, take());
    },
  };
}

const RETRY_MS = 10;

/** Waits for a slow reader; without one, the text is lost. */
function writeAll(fd: number, text: string): void {
  for (let left = Buffer.from(text); left.length > 0; ) {
    try {
      left = left.subarray(writeSync(fd, left));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") return;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
    }
  }
}
