import { fetch } from "../../../shared/http/fetch.ts";
import { parseJson } from "../../../shared/platform/text/parse-json.ts";
import { delay, systemClock } from "../../../shared/platform/time/clock.ts";
import { readEvents, type StreamState } from "../read-event-stream.ts";
import { plain } from "../text.ts";

/** What a stream has said of a call. */
export type Watched =
  | Ended
  /** The deadline came first, or nothing more of a job that the runner has. */
  | { kind: "late"; state: string | undefined }
  /** There is no such stream: streams are disabled, or the gateway has too many. */
  | { kind: "unwatched" };

/** The call has come to its end. What there is to be had of it, and why it failed, only who has its token is told. */
type Ended = { kind: "ended"; state: string; result: string | undefined; failure: Fields | undefined };

type Fields = Readonly<Record<string, unknown>>;

type Watching = {
  /** Without it the stream has the state words alone. */
  token: string | undefined;
  /** Unix ms. */
  deadline: number;
  /** How long a job that the runner has may say nothing: its runner may never deliver. */
  patienceMs?: number;
  onState: (state: string) => void;
  onProgress: (progress: Fields) => void;
};

/** So soon a client comes again if the stream does not say. */
const RETRY_MS = 2000;
const PATIENCE_MS = 10_000;

/**
 * Follows a call by its stream of events, and comes again when that breaks off, until the call ends, the deadline passes, or patience with
 * a job that the runner has.
 */
export async function watch(followed: URL, watching: Watching): Promise<Watched> {
  const { deadline, patienceMs = PATIENCE_MS, onState, onProgress } = watching;
  const stream: StreamState = { lastEventId: "", retryMs: RETRY_MS };
  const over = new AbortController();
  let until = deadline;
  let timer = setTimeout(() => over.abort(), deadline - systemClock());
  let state: string | undefined;

  function waitOn(): void {
    until = state === INJECTED ? Math.min(deadline, systemClock() + patienceMs) : deadline;
    clearTimeout(timer);
    timer = setTimeout(() => over.abort(), until - systemClock());
  }

  function take(event: string, data: Fields): Ended | undefined {
    const said = textOf(data["state"]) ?? state;
    if (said !== undefined && said !== state) onState(said);
    state = said;
    waitOn();
    const progress = fieldsOf(data["progress"]);
    if (event === "progress" && progress !== undefined) onProgress(progress);
    return state === undefined ? undefined : endOf(event, state, data);
  }

  /** One connection. Undefined if it broke off, or the gateway has ended it. */
  async function once(): Promise<Watched | undefined> {
    const answer = await openStream(followed, watching.token, stream.lastEventId, over.signal);
    if (answer === undefined) return { kind: "unwatched" };
    // Whoever leaves the loop closes the connection.
    for await (const { event, data } of readEvents(answer, stream)) {
      const ended = take(event, fieldsOf(parseJson(data)) ?? {});
      if (ended !== undefined) return ended;
    }
    return undefined;
  }

  try {
    while (systemClock() < until) {
      const watched = await once().catch(() => undefined);
      if (watched !== undefined) return watched;
      await delay(Math.min(stream.retryMs, Math.max(1, until - systemClock())));
    }
    return { kind: "late", state };
  } finally {
    clearTimeout(timer);
  }
}

/** Follows no redirect: the token is for the gateway that was paid. Undefined if the answer is no stream. */
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
/** An operator has to decide: nothing comes of it soon. */
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
