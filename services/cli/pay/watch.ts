import { fetch } from "../../../shared/http/fetch.ts";
import { parseJson } from "../../../shared/platform/text/parse-json.ts";
import { delay, systemClock } from "../../../shared/platform/time/clock.ts";
import { readEvents, type StreamState } from "../read-event-stream.ts";
import { plain } from "../text.ts";

/** Outcome of watching a call by its event stream. */
export type WatchOutcome =
  | Ended
  /** The deadline passed, or an injected job sent no event for `patienceMs`. */
  | { kind: "late"; state: string | undefined }
  /** The gateway offers no stream now: streams are disabled, or too many are open. */
  | { kind: "unwatched" };

/** The call has ended. The gateway sends `result` and `failure` only to clients with the result token. */
type Ended = { kind: "ended"; state: string; result: string | undefined; failure: Fields | undefined };

type Fields = Readonly<Record<string, unknown>>;

type WatchOptions = {
  /** The result token. Without the token, the stream contains only the state. */
  token: string | undefined;
  /** Unix ms. */
  deadline: number;
  /**
   * Longest wait for the next event of an injected call. The wait is limited, because the runner of a long job may
   * never deliver a result.
   */
  patienceMs?: number;
  onState: (state: string) => void;
  onProgress: (progress: Fields) => void;
};

/** Pause before a reconnect, unless the stream asks for another one. */
const RETRY_MS = 2000;
const PATIENCE_MS = 10_000;

/**
 * Watches a call by its event stream, and reconnects when the stream breaks. Stops when the call ends, when the
 * deadline passes, or when no event arrives for `patienceMs` after the call was injected.
 */
export async function watch(followed: URL, watching: WatchOptions): Promise<WatchOutcome> {
  const { deadline, patienceMs = PATIENCE_MS, onState, onProgress } = watching;
  const stream: StreamState = { lastEventId: "", retryMs: RETRY_MS };
  const over = new AbortController();
  let until = deadline;
  let timer = setTimeout(() => over.abort(), deadline - systemClock());
  let state: string | undefined;

  function restartTimer(): void {
    until = state === INJECTED ? Math.min(deadline, systemClock() + patienceMs) : deadline;
    clearTimeout(timer);
    timer = setTimeout(() => over.abort(), until - systemClock());
  }

  function handleEvent(event: string, data: Fields): Ended | undefined {
    const newState = textOf(data["state"]) ?? state;
    if (newState !== undefined && newState !== state) onState(newState);
    state = newState;
    restartTimer();
    const progress = fieldsOf(data["progress"]);
    if (event === "progress" && progress !== undefined) onProgress(progress);
    return state === undefined ? undefined : endOf(event, state, data);
  }

  /** Reads events from one connection until the call ends. Undefined if the gateway closes the connection before. */
  async function readConnection(): Promise<WatchOutcome | undefined> {
    const answer = await openStream(followed, watching.token, stream.lastEventId, over.signal);
    if (answer === undefined) return { kind: "unwatched" };
    // Leaving the loop closes the connection.
    for await (const { event, data } of readEvents(answer, stream)) {
      const ended = handleEvent(event, fieldsOf(parseJson(data)) ?? {});
      if (ended !== undefined) return ended;
    }
    return undefined;
  }

  try {
    while (systemClock() < until) {
      const watched = await readConnection().catch(() => undefined);
      if (watched !== undefined) return watched;
      await delay(Math.min(stream.retryMs, Math.max(1, until - systemClock())));
    }
    return { kind: "late", state };
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Opens the stream. Does not follow redirects, because the token must go only to the gateway that was paid. Undefined
 * if the answer is not a stream.
 */
async function openStream(
  followed: URL,
  token: string | undefined,
  lastEventId: string,
  signal: AbortSignal,
): Promise<AsyncIterable<Uint8Array> | undefined> {
  const events = new URL(followed);
  events.pathname += "/events";
  const answer = await fetch(events, {
    headers: {
      Accept: "text/event-stream",
      ...(token !== undefined && { Authorization: `Bearer ${token}` }),
      ...(lastEventId !== "" && { "Last-Event-ID": lastEventId }),
    },
    redirect: "error",
    signal,
  });
  const isStream = /^text\/event-stream\b/.test(answer.headers.get("content-type") ?? "");
  if (answer.status === 200 && isStream) return answer.body;
  answer.body.destroy();
  return undefined;
}

const INJECTED = "injected";
/**
 * The state of a payment about which an operator must decide. No further event will come soon, so the command stops
 * watching as if the call had ended.
 */
const IN_REVIEW = "review";

function endOf(event: string, state: string, { result, failure }: Fields): Ended | undefined {
  if (event !== "end" && state !== IN_REVIEW) return undefined;
  return { kind: "ended", state, result: textOf(result), failure: fieldsOf(failure) };
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? plain(value) : undefined;
}

function fieldsOf(value: unknown): Fields | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Fields) : undefined;
}
