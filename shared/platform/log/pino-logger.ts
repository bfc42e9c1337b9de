import { write, writeSync } from "node:fs";
import { pino } from "pino";
import { PinoPretty } from "pino-pretty";
import { within } from "../time/clock.ts";
import type { Fields, Logger } from "./logger.ts";

export type ProcessLogger = Logger & {
  /** Resolves once the lines still in memory are written. Lines that are not read within a second are lost. */
  flush(): Promise<void>;
};

/**
 * JSON lines on stdout, or readable lines on a terminal. Lines are written later, many at a time under load, so that a line
 * costs a request no system call; a killed process may lose its last lines.
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

/** Makes the time of a line, as `pino.stdTimeFunctions.isoTime` does. Lines of one millisecond share its text, which costs as much as the rest. */
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

/** Tells the log how many lines are missing at this place. */
type Tell = (lines: number) => void;

function openDestination({ pretty }: { pretty: boolean }, tell: Tell) {
  if (pretty) {
    const ignore = "pid,hostname,service";
    const options = { sync: true, ignore, messageKey: "event", translateTime: "HH:MM:ss.l" };
    return { destination: PinoPretty(options), flush: async () => {} };
  }
  // Opening the stream makes a pipe non-blocking. Otherwise a reader that stops would block each write, and the exit.
  const lines = batchedLines(process.stdout.fd, tell);
  process.once("exit", lines.flushSync);
  return { destination: lines, flush: lines.flush };
}

const GATHER_MS = 20;
const FLUSH_MS = 1000;
const RETRY_MS = 10;
/** Further lines are dropped while this many characters wait behind a write. 1,000 lines a second fill it in half a minute. */
const WAITING_CHARS_MAX = 8 * 1024 * 1024;
const NOTHING = Buffer.alloc(0);

let dropped = 0;

/** Number of lines that this process has dropped because the reader of stdout was too slow or gone. */
export const droppedLines = (): number => dropped;

/**
 * Gathers lines for a moment, and for as long as a write is under way, so that under load one write takes many of them. If the
 * reader stops, further lines are dropped. Once it reads again, `tell` logs their number behind the last line before the gap.
 */
function batchedLines(fd: number, tell: Tell) {
  let gathered = "";
  /** Taken from `gathered` and not written yet. */
  let taken: Buffer = NOTHING;
  let untold = 0;
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
    if (untold > 0) {
      const lines = untold;
      untold = 0;
      tell(lines);
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
        untold += 1;
        return;
      }
      gathered += line;
      timer ??= setTimeout(pass, GATHER_MS).unref();
    },
    flush: () => within(FLUSH_MS, idle()).then(() => {}),
    /** Leaves a write alone that is under way: how far it has come is unknown. */
    flushSync(): void {
      clearTimeout(timer);
      if (state === "unread") return;
      writeAll(fd, Buffer.concat([state === "writing" ? NOTHING : taken, take()]));
    },
  };
}

/** Waits a second for a slow reader. What it has not read by then is lost. */
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
