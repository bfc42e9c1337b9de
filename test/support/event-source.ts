import { request } from "node:http";
import type { Socket } from "node:net";

/** One event or comment of a stream. */
export type ReadEvent = {
  event?: string;
  id?: string;
  data?: Record<string, unknown>;
  retry?: number;
  comment?: true;
};

export type ReadStream = {
  status: number;
  headers: Record<string, unknown>;
  /** Events that have arrived so far, without comments. */
  events: ReadEvent[];
  comments(): number;
  /** Resolves once the server has ended the stream, or the connection is closed. */
  ended: Promise<void>;
  /** Stops reading, like a client that hangs. */
  pause(): void;
  resume(): void;
  close(): void;
};

type Options = { lastEventId?: string; token?: string; method?: string; headers?: Record<string, string> };

/** Reads a stream of server-sent events line by line, so that a test sees what a client library hides. */
export function readStream(url: string, options: Options = {}): Promise<ReadStream> {
  const { lastEventId, token, method = "GET" } = options;
  const headers = {
    ...(lastEventId !== undefined && { "Last-Event-ID": lastEventId }),
    ...(token !== undefined && { Authorization: `Bearer ${token}` }),
    ...options.headers,
  };
  return new Promise((resolve, reject) => {
    const req = request(url, { method, headers, agent: false }, (answer) => {
      const read: ReadEvent[] = [];
      let text = "";
      answer.setEncoding("utf8");
      answer.on("data", (chunk: string) => {
        const blocks = `${text}${chunk}`.split("\n\n");
        text = blocks.pop() ?? "";
        read.push(...blocks.map(toEvent));
      });
      answer.on("error", () => {});
      resolve({
        status: answer.statusCode ?? 0,
        headers: answer.headers,
        get events() {
          return read.filter(({ comment }) => comment === undefined);
        },
        comments: () => read.filter(({ comment }) => comment).length,
        ended: new Promise((end) => answer.once("close", () => end())),
        pause() {
          answer.pause();
          (answer.socket as Socket).pause();
        },
        resume() {
          answer.resume();
          (answer.socket as Socket).resume();
        },
        close: () => req.destroy(),
      });
    });
    req.on("error", reject);
    req.end();
  });
}

function toEvent(block: string): ReadEvent {
  if (block.startsWith(":")) return { comment: true };
  const fields = Object.fromEntries(
    block.split("\n").map((line) => {
      const at = line.indexOf(": ");
      return [line.slice(0, at), line.slice(at + 2)] as const;
    }),
  ) as Record<string, string>;
  const { event, id, data, retry } = fields;
  return {
    ...(event !== undefined && { event }),
    ...(id !== undefined && { id }),
    ...(data !== undefined && { data: JSON.parse(data) as Record<string, unknown> }),
    ...(retry !== undefined && { retry: Number(retry) }),
  };
}
