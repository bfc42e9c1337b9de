import { fillPath } from "../../../shared/platform/text/fill-path.ts";
import type { Query } from "../url-fragment.ts";
import type { AnswerAt, InputAt, Method, PathOf } from "./contract.ts";
import { learnServerTime } from "./server-time.ts";

type Why = { status: number; detail: string; pauseMs?: number; cause?: unknown };

/** Error of a request that the console refused or did not answer, or whose answer could not be read. */
export class Refused extends Error {
  override readonly name = "Refused";
  /** HTTP status of the answer; 0 without an answer. */
  readonly status: number;
  readonly code: string;
  /** Text for the user: what is wrong, and what to do about it. */
  readonly detail: string;
  /** Minimum wait before the page repeats the request by itself. */
  readonly pauseMs: number;

  constructor(code: string, { status, detail, pauseMs = 0, ...rest }: Why) {
    super(`${code}: ${detail}`, rest);
    this.status = status;
    this.code = code;
    this.detail = detail;
    this.pauseMs = pauseMs;
  }
}

export function toRefused(thrown: unknown): Refused {
  return thrown instanceof Refused
    ? thrown
    : new Refused("unexpected", { status: 0, detail: String(thrown) });
}

/** Called when the console answers that the user is not signed in, for example because the session has ended. */
let onSignedOut: () => void = () => {};
export function setSignedOutListener(listener: () => void): void {
  onSignedOut = listener;
}

/** Timeout of a GET. Without it, a request over a connection that died without being closed would never end. */
const ANSWER_MS_MAX = 30_000;
/**
 * The pause before the next poll is at least this many times as long as the last request took. So the slower the
 * console is, the fewer requests the open pages send.
 */
const PAUSE_FACTOR = 10;
const RETRY_AFTER_MS_MAX = 3_600_000;

/**
 * Returns the minimum pause after a request that began at `begunAt`. The duration of the request counts only up to
 * `ANSWER_MS_MAX`. Otherwise a laptop that slept during a request would pause for ten times its sleep.
 */
export function pauseSince(begunAt: number): number {
  return PAUSE_FACTOR * Math.min(Date.now() - begunAt, ANSWER_MS_MAX);
}

type Members = Readonly<Record<string, unknown>>;

/** Sends a request for one operation of the console. Throws `Refused`. */
export function request<M extends Method, P extends PathOf<M>>(
  method: M,
  path: P,
  asked: InputAt<M, P>,
  signal?: AbortSignal,
): Promise<AnswerAt<M, P>> {
  const { path: filled, rest } = fillPath(path, asked as Members);
  const body = method === "POST" ? rest : undefined;
  const signals = [signal ?? [], method === "GET" ? AbortSignal.timeout(ANSWER_MS_MAX) : []].flat();
  const init = {
    method,
    signal: AbortSignal.any(signals),
    // The console refuses a POST with any other content type. A form on another site cannot send this one, so it cannot
    // act for a signed-in user.
    headers: {
      accept: "application/json",
      ...(body !== undefined && { "content-type": "application/json" }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  };
  const read = async (response: Response) =>
    (response.status === 204 ? undefined : await response.json()) as AnswerAt<M, P>;
  return exchange(method === "POST" ? urlOf(filled) : urlOf(filled, rest as Query), init, read);
}

/** Sends a GET for a file or body, and returns the bytes of the answer. */
export function requestBytes<P extends PathOf<"GET">>(
  path: P,
  asked: InputAt<"GET", P>,
): Promise<Uint8Array> {
  return exchange(
    urlOf(fillPath(path, asked as Members).path),
    {},
    async (response) => new Uint8Array(await response.arrayBuffer()),
  );
}

export function urlOf(path: string, query: Query = {}): URL {
  const url = new URL(path, document.baseURI);
  url.hash = "";
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") url.searchParams.set(name, String(value));
  }
  return url;
}

/** Sends a request and reads its answer. Throws `Refused`, also if the connection breaks while the answer is read. */
async function exchange<Answer>(
  url: URL,
  init: RequestInit,
  read: (response: Response) => Promise<Answer>,
): Promise<Answer> {
  const begunAt = Date.now();
  let refused: Refused;
  try {
    const response = await fetch(url, { ...init, credentials: "same-origin" });
    learnServerTime(response.headers.get("date"));
    if (response.ok) return await read(response);
    refused = await refusalOf(response, begunAt);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    const detail = "The console server does not answer.";
    throw new Refused("unreachable", { status: 0, detail, pauseMs: pauseSince(begunAt), cause: error });
  }
  if (refused.status === 401) onSignedOut();
  throw refused;
}

async function refusalOf(response: Response, begunAt: number): Promise<Refused> {
  const { status, statusText, headers } = response;
  const pauseMs = Math.max(retryAfterMs(headers), pauseSince(begunAt));
  try {
    const { code, detail, title } = (await response.json()) as Record<string, unknown>;
    const words = String(detail ?? title ?? statusText);
    return new Refused(String(code ?? status), { status, detail: words, pauseMs });
  } catch {
    const detail = statusText || "The answer cannot be read.";
    return new Refused(String(status), { status, detail, pauseMs });
  }
}

/**
 * Returns the time in the `Retry-After` header, which the console sends in seconds. Limited to `RETRY_AFTER_MS_MAX`; 0
 * without the header.
 */
function retryAfterMs(headers: Headers): number {
  const secs = Number(headers.get("retry-after"));
  return secs > 0 ? Math.min(secs * 1000, RETRY_AFTER_MS_MAX) : 0;
}
