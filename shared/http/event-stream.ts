import type { IncomingMessage, ServerResponse } from "node:http";
import { COMMON_HEADERS } from "./answer.ts";
import { onInputEnd } from "./input-end.ts";

/*
 * Server-sent events (WHATWG HTML, section 9.2), as one answer that stays open. While a reader is slow, the writer
 * waits and queues nothing. The reader gets the newest state once it reads again.
 */

/**
 * Headers of a stream. X-Accel-Buffering tells nginx not to buffer the answer, so that events reach the client at once.
 */
const HEADERS = {
  ...COMMON_HEADERS,
  "Content-Type": "text/event-stream",
  "X-Accel-Buffering": "no",
} as const;

/**
 * Bytes that may wait for a slow reader. Beyond this the stream counts as slow, and its owner sends no further events
 * until `onReady`. Node's own high-water mark is unsuitable: it is four times as large since Node 22, and a program that
 * uses a gateway as a library may set another one.
 */
const WAITING_BYTES_MAX = 16 * 1024;

/** Time in ms after which a client reconnects if its connection breaks. */
export const RETRY_MS = 2000;
/**
 * When the server stops, it adds a random part of this time in ms to the delay of each client. So its clients do not
 * all reconnect at once.
 */
const RETRY_OVER_MS = 4000;

/** Returns a random reconnection delay in ms, for one client of a server that stops. */
export function retryDelayMs(): number {
  return RETRY_MS + Math.floor(Math.random() * RETRY_OVER_MS);
}

export type StreamEvent = {
  event: string;
  /** Id that the client sends as `Last-Event-ID` when it reconnects. It must not contain line breaks. */
  id: string;
  data: object;
};

export type EventStream = {
  /** Returns whether the reader keeps up. If not, `onReady` is called once it has caught up. */
  isReady(): boolean;
  send(events: readonly StreamEvent[]): void;
  /** Sends a comment. It keeps proxies from closing the connection and detects dead connections. Clients ignore it. */
  heartbeat(): void;
  /** Ends the stream. `retryMs` tells the client when to reconnect. */
  end(retryMs?: number): void;
};

type Options = {
  /** A reader that reads nothing for this time is disconnected. */
  stalledMs: number;
  onReady: () => void;
  /**
   * Called when the client has ended its side, the connection is gone, or the stream has ended. The callback must call
   * `end`. It may be called twice.
   */
  onClose: () => void;
};

/** Starts an answer that is a stream of events. */
export function openEventStream(res: ServerResponse, { stalledMs, onReady, onClose }: Options): EventStream {
  /** Timer that disconnects a slow reader. Undefined while the reader keeps up. */
  let stalled: NodeJS.Timeout | undefined;

  function write(text: string): void {
    res.write(text, onWritten);
    if (res.writableLength < WAITING_BYTES_MAX || res.destroyed) return;
    stalled ??= setTimeout(() => res.destroy(), stalledMs);
  }

  function onWritten(error?: Error | null): void {
    if (stalled === undefined || error || res.writableLength > 0) return;
    clearTimeout(stalled);
    stalled = undefined;
    onReady();
  }

  res.on("close", () => {
    clearTimeout(stalled);
    stopListening();
    onClose();
  });
  const stopListening = onInputEnd(res.req, onClose);
  res.on("error", () => {}); // "close" follows
  res.writeHead(200, HEADERS);
  write(retry(RETRY_MS));
  return {
    isReady: () => stalled === undefined,
    send(events) {
      if (events.length > 0) write(events.map(toText).join(""));
    },
    heartbeat() {
      if (stalled === undefined) write(": \n\n");
    },
    end(retryMs) {
      res.end(retryMs === undefined ? undefined : retry(retryMs));
    },
  };
}

/** Answers with a stream that ends at once, without an event. The client reconnects. */
export function sendEmptyStream(res: ServerResponse): void {
  res.writeHead(200, HEADERS).end(retry(retryDelayMs()));
}

/** Answers 204, after which a client does not reconnect (WHATWG HTML, section 9.2.2). */
export function sendNoContent(res: ServerResponse): void {
  res.writeHead(204, COMMON_HEADERS).end();
}

/** Returns the id of the last event that the client has received; empty if it has received none. */
export function lastEventId(req: IncomingMessage): string {
  const id = req.headers["last-event-id"];
  return typeof id === "string" ? id : "";
}

function retry(ms: number): string {
  return `retry: ${ms}\n\n`;
}

/** Formats an event. JSON has no line breaks, so its data is one line. */
function toText({ event, id, data }: StreamEvent): string {
  return `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}
