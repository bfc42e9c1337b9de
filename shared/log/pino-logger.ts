import { once } from "node:events";
import { writeSync } from "node:fs";
import { pino } from "pino";
import { PinoPretty } from "pino-pretty";
import { within } from "../time/clock.ts";
import type { Fields, Logger } from "./logger.ts";

export type ProcessLogger = Logger & {
  /** Resolves once the lines still in memory are written. What nobody reads within a second is lost. */
  flush(): Promise<void>;
};

const STDOUT = 1;

/**
 * JSON lines on stdout, or readable lines on a terminal. Lines are written later, many at a time under load, so that a line
 * costs a request no system call; a killed process may lose its last lines.
 */
export function createProcessLogger(
  service: string,
  options: { pretty: boolean; level?: string },
): ProcessLogger {
  const { destination, flush } = openDestination(options);
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
    flush,
  };
}

function openDestination({ pretty }: { pretty: boolean }) {
  if (pretty) {
    const ignore = "pid,hostname,service";
    const options = { sync: true, ignore, messageKey: "event", translateTime: "HH:MM:ss.l" };
    return { destination: PinoPretty(options), flush: async () => {} };
  }
  const lines = batchedLines(pino.destination({ fd: STDOUT, sync: false }), STDOUT);
  process.once("exit", lines.flushSync);
  return { destination: lines, flush: lines.flush };
}

const GATHER_MS = 20;
const FLUSH_MS = 1000;

/** Gathers lines for a moment, and for as long as a write is under way, so that under load one write takes many of them. */
function batchedLines(sink: ReturnType<typeof pino.destination>, fd: number) {
  let gathered = "";
  let timer: NodeJS.Timeout | undefined;
  let state: "idle" | "writing" | "unread" = "idle";
  sink.on("drain", () => {
    state = "idle";
    if (timer === undefined) pass();
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
    timer = undefined;
    if (state !== "idle" || gathered === "") return;
    state = "writing";
    sink.write(take());
  };
  return {
    write(line: string): void {
      if (state === "unread") return;
      gathered += line;
      timer ??= setTimeout(pass, GATHER_MS).unref();
    },
    async flush(): Promise<void> {
      const written = async (): Promise<void> => {
        while (state !== "unread" && (state === "writing" || gathered !== "")) {
          pass();
          await once(sink, "drain").catch(() => {}); // rejects with the sink's error, which is looked at above
        }
      };
      await within(FLUSH_MS, written());
    },
    /** Not by the sink, which would try forever to write what nobody reads any more. */
    flushSync(): void {
      clearTimeout(timer);
      timer = undefined;
      writeAll(fd, take());
    },
  };
}

const RETRY_MS = 10;

/** Waits a second for a slow reader. What it has not read by then is lost. */
function writeAll(fd: number, text: string): void {
  let triesLeft = FLUSH_MS / RETRY_MS;
  for (let left = Buffer.from(text); left.length > 0; ) {
    try {
      left = left.subarray(writeSync(fd, left));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN" || triesLeft-- === 0) return;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_MS);
    }
  }
}
