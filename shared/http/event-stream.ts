import type { IncomingMessage, ServerResponse } from "node:http";
import { COMMON_HEADERS } from "./answer.ts";
import { onInputEnd } from "./input-end.ts";

/*
 * Server-sent events (WHATWG HTML, section 9.2), as one answer that stays open. Whoever writes asks first whether the reader has taken what was
 * written before, and writes no more until it has: so nothing is queued for a slow reader, who sees the newest state once he reads on.
 */

/** Nginx would hold an answer back, so it is asked not to. */
const HEADERS = {
  ...COMMON_HEADERS,
  "Content-Type": "text/event-stream",
  "X-Accel-Buffering": "no",
} as const;

/**
 * Bytes that wait for a slow reader before nothing more is written. Node's own high-water mark would not do: it is four times as much
 * since Node 22, and a host's server may have another one.
 */
const WAITING_BYTES_MAX = 16 * 1024;

/** How soon a client comes again if its connection breaks. */
export const RETRY_MS = 2000;
/** The clients of a process that stops come again over so many ms more, not all at once. */
const RETRY_OVER_MS = 4000;

/** When a client is to come again whose process stops. */
export function retrySoon(): number {
  return RETRY_MS + Math.floor(Math.random() * RETRY_OVER_MS);
}

export type StreamEvent = {
  event: string;
  /** What the client sends as `Last-Event-ID` when it comes again; without line ends. */
  id: string;
  data: object;
};

export type EventStream = {
  /** Whether the reader keeps up. If not, `onReady` is called once he has caught up. */
  isReady(): boolean;
  send(events: readonly StreamEvent[]): void;
  /** A comment, which no client sees, but proxies and dead connections do. */
  heartbeat(): void;
  /** Ends the stream. The client is told when to come again, in ms, if that is said. */
  end(retryMs?: number): void;
};

type Options = {
  /** Who reads nothing for so long is cut off. */
  stalledMs: number;
  onReady: () => void;
  /** The client has ended its side, the connection is gone, or the stream was ended. It must end the stream, and may come twice. */
  onClose: () => void;
};

/** Begins the answer. */
export function openEventStream(res: ServerResponse, { stalledMs, onReady, onClose }: Options): EventStream {
  /** While the reader lags. */
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
    end(again) {
      res.end(again === undefined ? undefined : retry(again));
    },
  };
}

/** A stream that ends at once, without an event. Its client comes again. */
export function sendNothingYet(res: ServerResponse): void {
  res.writeHead(200, HEADERS).end(retry(retrySoon()));
}

/** A client that gets this does not come again (section 9.2.2). */
export function sendNoMore(res: ServerResponse): void {
  res.writeHead(204, COMMON_HEADERS).end();
}

/** The id of the last event that the client has seen; empty if it has seen none. */
export function lastEventId(req: IncomingMessage): string {
  const id = req.headers["last-event-id"];
  return typeof id === "string" ? id : "";
}

function retry(ms: number): string {
  return `retry: ${ms}\n\n`;
}

/** JSON has no line ends, so the data is one line. */
function toText({ event, id, data }: StreamEvent): string {
  return `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}
