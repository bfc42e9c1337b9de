import { type Dispatcher, Pool } from "undici";
import type { Secret } from "../../shared/crypto/secret.ts";
import { AppError, messageOf } from "../../shared/errors/app-error.ts";
import type { Clock } from "../../shared/time/clock.ts";
import type { DeliveredCall, Inject } from "./inject.ts";
import { readAnswer } from "./runner-answer.ts";
import { createToRequest } from "./runner-request.ts";

type Options = {
  /** Base URL of the runner. */
  url: string;
  /** Signs each request (RFC 9421); without it requests are unsigned. */
  secret: Secret | undefined;
  /** Time for the whole exchange. */
  timeoutMs: number;
  /** Connections kept alive: as many as calls are injected at once. */
  connections: number;
  clock: Clock;
};

export type HttpInject = { inject: Inject; close(): Promise<void> };

const CONNECT_TIMEOUT_MS = 2000;
const EXCERPT_CHARS = 300;
/** An answer longer than this is not read on. */
const ANSWER_BYTES_MAX = 64 * 1024;

/** Injects over HTTP: `POST {url}/jobs/{job_id}` on connections kept alive; redirects are not followed. */
export function createHttpInject({ url, secret, timeoutMs, connections, clock }: Options): HttpInject {
  const base = new URL(url);
  const pool = new Pool(base.origin, {
    connections,
    pipelining: 1,
    connect: { timeout: Math.min(CONNECT_TIMEOUT_MS, timeoutMs) },
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    keepAliveTimeout: 4000,
  });
  const toRequest = createToRequest({ basePath: base.pathname.replace(/\/$/, ""), secret });

  async function inject(delivered: DeliveredCall, signal: AbortSignal): Promise<void> {
    const request = toRequest(delivered, Math.floor(clock() / 1000));
    const error = await exchange(request, signal);
    if (error !== undefined) throw error;
  }

  async function exchange(
    request: Dispatcher.RequestOptions,
    signal: AbortSignal,
  ): Promise<AppError | undefined> {
    const ended = new AbortController();
    const onLost = (): void => ended.abort(signal.reason);
    const timer = setTimeout(() => ended.abort(new TimedOut(timeoutMs)), timeoutMs);
    signal.addEventListener("abort", onLost, { once: true });
    try {
      const response = await pool.request({ ...request, signal: ended.signal });
      const excerpt = await readExcerpt(response);
      const retryAfter = response.headers["retry-after"];
      return readAnswer({ status: response.statusCode, retryAfter: first(retryAfter), excerpt }, clock());
    } catch (cause) {
      return noAnswer(cause);
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", onLost);
    }
  }

  return { inject, close: () => pool.destroy() };
}

class TimedOut extends Error {
  constructor(ms: number) {
    super(`no answer within ${ms} ms`);
  }
}

/** The start of a refusal's text, with the rest read away so that the connection can be used again. */
async function readExcerpt({ statusCode, body }: Dispatcher.ResponseData): Promise<string> {
  if (statusCode >= 200 && statusCode < 300) {
    await body.dump({ limit: ANSWER_BYTES_MAX });
    return "";
  }
  let text = "";
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (text.length < EXCERPT_CHARS) text += chunk.toString("utf8");
    if (bytes > ANSWER_BYTES_MAX) break;
  }
  return text.slice(0, EXCERPT_CHARS).replaceAll(/\s+/g, " ").trim();
}

function noAnswer(cause: unknown): AppError {
  const timedOut = cause instanceof TimedOut || /Timeout/.test(cause instanceof Error ? cause.name : "");
  const connecting = cause instanceof Error && cause.name === "ConnectTimeoutError";
  const code = timedOut && !connecting ? "runner.timed_out" : "runner.unreachable";
  return new AppError(code, { reason: messageOf(cause), cause });
}

function first(header: string | string[] | undefined): string | undefined {
  return Array.isArray(header) ? header[0] : header;
}
