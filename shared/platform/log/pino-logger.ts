import { write, writeSync } from "node:fs";
import { pino } from "pino";
import { PinoPretty } from "pino-pretty";
import { within } from "../time/clock.ts";
import type { Fields, Logger } from "./logger.ts";

export type ProcessLogger = Logger & {
  /** Resolves once all lines are written. If the reader of stdout does not read them within a second, they are lost. */
  flush(): Promise<void>;
};

/**
 * Creates a logger that writes JSON lines to stdout, or readable lines to a terminal. JSON lines are gathered and
 * written together a little later, so that a request never waits for a system call. A killed process may lose its last
 * lines.
 */
export function createProcessLogger(
  service: string,
  options: { pretty: boolean; level?: string },
): ProcessLogger {
  const { destination, flush } = openDestination(options, (lines) =>
    log.warn({ lines }, "log.lines_dropped"),
  );
  const log = pino(
    {
      base: { service, pid: process.pid },
      messageKey: "event",
      level: options.level ?? "info",
      formatters: { level: (label) => ({ level: label }) },
      timestamp: createIsoTime(),
    },
    destination,
  );
  return {
    info: (event, fields: Fields = {}) => log.info(fields, event),
    warn: (event, fields: Fields = {}) => log.warn(fields, event),
    error: (event, fields: Fields = {}) => log.error(fields, event),
    flush,
  };
}

/**
 * Creates the function that formats a line's time, as `pino.stdTimeFunctions.isoTime` does. The text is cached for the
 * lines of the same millisecond, because formatting it costs as much as the rest of a line.
 */
function createIsoTime(): () => string {
  let at = Number.NaN;
  let text = "";
  return () => {
    const now = Date.now();
    if (now !== at) {
      at = now;
      text = `,"time":"${new Date(now).toISOString()}"`;
    }
    return text;
  };
}

/** Logs a line which says how many lines were dropped at this position of the log. */
type LogDropped = (lines: number) => void;

function openDestination({ pretty }: { pretty: boolean }, logDropped: LogDropped) {
  if (pretty) {
    const ignore = "pid,hostname,service";
    const options = { sync: true, ignore, messageKey: "event", translateTime: "HH:MM:ss.l" };
    return { destination: PinoPretty(options), flush: async () => {} };
  }
  // The access to `process.stdout` makes a pipe non-blocking. If it were blocking, a reader that stops reading would
  // block each write, and the exit of the process.
  const lines = batchedLines(process.stdout.fd, logDropped);
  process.once("exit", lines.flushSync);
  return { destination: lines, flush: lines.flush };
}

const GATHER_MS = 20;
const FLUSH_MS = 1000;
const RETRY_MS = 10;
/**
 * Limit on the characters of lines that wait while a write is running. Beyond it, lines are dropped. If the reader
 * stops, 1,000 lines a second reach it in half a minute.
 */
const WAITING_CHARS_MAX = 8 * 1024 * 1024;
const NOTHING = Buffer.alloc(0);

let dropped = 0;

/** Returns how many lines this process has dropped because the reader of stdout was too slow or gone. */
export const droppedLines = (): number => dropped;

/**
 * Creates a writer that gathers lines for GATHER_MS, and while a write is running, and then writes them together. If
 * the reader of stdout stops reading, the waiting lines reach their limit, and further ones are dropped. Once it reads
 * again, `logDropped` logs the number of dropped lines, in the place where they are missing.
 */
function batchedLines(fd: number, logDropped: LogDropped) {
  let gathered = "";
  /** Bytes taken from `gathered` that are not written yet. */
  let taken: Buffer = NOTHING;
  let unreported = 0;
  let timer: NodeJS.Timeout | undefined;
  let state: "idle" | "writing" | "waiting" | "unread" = "idle";
  let onIdle = (): void => {};

  const take = (): Buffer => {
    const lines = Buffer.from(gathered);
    gathered = "";
    return lines;
  };

  const pass = (): void => {
    timer = undefined;
    if (state !== "idle" || gathered === "") return;
    taken = take();
    if (unreported > 0) {
      const lines = unreported;
      unreported = 0;
      logDropped(lines);
    }
    writeTaken();
  };

  const writeTaken = (): void => {
    state = "writing";
    write(fd, taken, (error, bytes) => {
      if (error !== null) return failed(error);
      taken = taken.subarray(bytes);
      if (taken.length > 0) return writeTaken();
      state = "idle";
      onIdle();
      if (timer === undefined) pass();
    });
  };

  const failed = (error: NodeJS.ErrnoException): void => {
    if (error.code === "EAGAIN") {
      state = "waiting";
      setTimeout(writeTaken, RETRY_MS).unref();
    } else if (error.code === "EPIPE") {
      state = "unread";
      onIdle();
    } else throw error;
  };

  const idle = async (): Promise<void> => {
    while (state !== "unread" && (state !== "idle" || gathered !== "")) {
      pass();
      await new Promise<void>((resolve) => {
        onIdle = resolve;
      });
    }
  };

  return {
    write(line: string): void {
      if (state === "unread" || gathered.length >= WAITING_CHARS_MAX) {
        dropped += 1;
        unreported += 1;
        return;
      }
      gathered += line;
      timer ??= setTimeout(pass, GATHER_MS).unref();
    },
    flush: () => within(FLUSH_MS, idle()).then(() => {}),
    /**
     * Writes all waiting lines synchronously. It leaves out the lines of a running write, because it is unknown how
     * many of their bytes are written already.
     */
    flushSync(): void {
      clearTimeout(timer);
      if (state === "unread") return;
      writeAll(fd, Buffer.concat([state === "writing" ? NOTHING : taken, take()]));
    },
  };
}

/** Writes synchronously. If the reader is slow, waits up to a second; bytes that are not written by then are lost. */
function writeAll(fd: number, bytes: Buffer): void {
  let triesLeft = FLUSH_MS / RETRY_MS;
  for (let left = bytes; left.length > 0; ) {
    try {
      left = left.subarray(writeSync(fd, left));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN" || triesLeft-- === 0) return;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
    }
  }
}
