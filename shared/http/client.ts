import type { Dispatcher, Pool } from "undici";
import { type Attributes, inSpan, tracer } from "../platform/traces/tracer.ts";

const CONNECT_TIMEOUT_MS = 3000;

type Options = {
  /** Whose path the paths of exchanges follow. It has no user and no password. */
  base: URL;
  /** Sent with every request. */
  headers: Readonly<Record<string, string>>;
  /** A longer answer is not read to its end. */
  answerBytesMax: number;
  /** Certificates to trust instead of the system's, in PEM. */
  ca?: string | undefined;
};

type Asked = {
  path: string;
  body: string | undefined;
  /** The deadline, from the first to the last byte: `AbortSignal.timeout`. */
  signal: AbortSignal;
  /** Of this request alone; over those of every request. */
  headers?: Readonly<Record<string, string>>;
  /** In place of the client's. */
  answerBytesMax?: number;
  /** Describes its span, which it gets if it is part of a trace. */
  span?: { name: string; attributes: Attributes };
};

/** `text` is undefined if the answer is too long. */
export type HttpAnswer = {
  status: number;
  headers: Dispatcher.ResponseData["headers"];
  text: string | undefined;
};

export type HttpClient = {
  /** One exchange: a POST if there is a body, else a GET. Rejects with the signal's reason, `TimeoutError`, after the deadline. */
  exchange(asked: Asked): Promise<HttpAnswer>;
  close(): Promise<void>;
};

/**
 * Exchanges texts with one server. It keeps its connections alive and opens one for each exchange under way, so that none waits for
 * another. Nothing is repeated, no redirect is followed, and the deadline covers an exchange from its first to its last byte.
 */
export function createHttpClient({
  base,
  headers: common,
  answerBytesMax: usualMax,
  ca,
}: Options): HttpClient {
  let pool: Promise<Pool> | undefined;
  return {
    async exchange({ path, body, signal, headers: own, answerBytesMax = usualMax, span: wanted }) {
      const method = body === undefined ? "GET" : "POST";
      const headers = own === undefined ? common : { ...common, ...own };
      pool ??= openPool(base, ca);
      const opened = pool;
      const span = tracer?.current() && wanted && tracer.start({ kind: "client", ...wanted });
      return inSpan(span, async () => {
        const response = await (await opened).request({ method, path, headers, body: body ?? null, signal });
        const { statusCode: status } = response;
        span?.set({ "http.request.method": method, "http.response.status_code": status });
        if (status >= 400) span?.fail(String(status));
        const text = await readText(response.body, answerBytesMax);
        return { status, headers: response.headers, text };
      });
    },
    close: async () => (await pool)?.destroy(),
  };
}

/** Loads undici, which takes 30 ms of processor time, only once something is asked: most commands ask nobody. */
async function openPool(base: URL, ca: string | undefined): Promise<Pool> {
  const [undici, { createConnector }] = await Promise.all([import("undici"), import("./connector.ts")]);
  return new undici.Pool(base.origin, {
    pipelining: 1,
    connect: createConnector({ timeout: CONNECT_TIMEOUT_MS, ...(ca !== undefined && { ca }) }),
  });
}

/** Whether an exchange has failed by its deadline. */
export function isTimeout(error: unknown): boolean {
  return error instanceof Error && error.name === "TimeoutError";
}

/** The body, or undefined if it is over the limit; its connection is then given up. */
async function readText(body: AsyncIterable<Buffer>, bytesMax: number): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > bytesMax) return undefined; // leaving the loop destroys the stream
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}
