import type { Query } from "../url-fragment.ts";
import { Refused, urlOf } from "./ask.ts";

/** Kinds of data that the console sends to the page in a stream, so that the page need not poll for them. */
export type LiveName = "overview" | "flow" | "jobs";

type Follower = {
  name: LiveName;
  /** The query with which a GET would request the same data. */
  query: Query;
  take(data: unknown): void;
  fail(refused: Refused): void;
};

/** Converts the query of a GET into the query of the stream's URL that requests the same data. */
const STREAM_QUERIES: Readonly<Record<LiveName, (query: Query) => Query>> = {
  overview: () => ({}),
  flow: ({ span, job }) => ({ flow: span, job }),
  jobs: () => ({ jobs: "true" }),
};

/**
 * Time without an event after which the stream counts as dead, even if its connection has not closed. The console sends
 * the overview every two seconds.
 */
const SILENT_MS = 10_000;
/** Pause before the page connects again after the console has refused the stream, for example because too many are open. */
const RECONNECT_MS = 15_000;

/*
 * Keeps one stream of server-sent events for all data of the page. If no events arrive, for example because a proxy
 * buffers them, use-answer.ts polls instead. A hidden page has no stream. A browser opens at most six connections to
 * the console for all tabs together, and streams of hidden tabs could use them up.
 */
const followers = new Set<Follower>();
let stream: { url: string; source: EventSource } | undefined;
let heardAt = Number.NEGATIVE_INFINITY;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Whether the stream has sent an event recently, so that the page need not poll. */
export function isLive(): boolean {
  return stream !== undefined && Date.now() - heardAt < SILENT_MS;
}

/**
 * Requests data from the stream for the follower, until the returned function is called. Each new piece of data is
 * passed to `take`, and an error to `fail`.
 */
export function followLive(follower: Follower): () => void {
  followers.add(follower);
  connectIn(0);
  return () => {
    followers.delete(follower);
    connectIn(0);
  };
}

document.addEventListener("visibilitychange", () => connectIn(0));

/**
 * Opens or replaces the stream after `ms`. Uses a timer even for 0 ms. When one page replaces another, several
 * followers leave and come at once, and only one connection is opened for all these changes.
 */
function connectIn(ms: number): void {
  clearTimeout(timer);
  timer = setTimeout(connect, ms);
}

function connect(): void {
  const wanted = [...followers];
  const query = Object.assign(
    {},
    ...wanted.map(({ name, query: own }) => STREAM_QUERIES[name](own)),
  ) as Query;
  const url = document.hidden || wanted.length === 0 ? undefined : urlOf("api/v1/live", query).href;
  if (url === stream?.url) return;
  stream?.source.close();
  heardAt = Number.NEGATIVE_INFINITY;
  stream = url === undefined ? undefined : { url, source: open(url, query) };
}

function open(url: string, query: Query): EventSource {
  const source = new EventSource(url);
  const onEvent = (name: string, tell: (follower: Follower) => void): void => {
    heardAt = Date.now();
    for (const each of followers)
      if (each.name === name && matchesQuery(STREAM_QUERIES[each.name](each.query), query)) tell(each);
  };
  for (const name of Object.keys(STREAM_QUERIES))
    source.addEventListener(name, ({ data }: MessageEvent<string>) => {
      const value: unknown = JSON.parse(data);
      onEvent(name, ({ take }) => take(value));
    });
  source.addEventListener("unavailable", ({ data }: MessageEvent<string>) => {
    const { of, code, status, detail } = JSON.parse(data) as Record<"of" | "code" | "detail", string> & {
      status: number;
    };
    onEvent(of, ({ fail }) => fail(new Refused(code, { status, detail })));
  });
  source.addEventListener("error", () => {
    if (source !== stream?.source) return;
    heardAt = Number.NEGATIVE_INFINITY;
    // The browser reconnects by itself after a broken connection, but not after a refusal.
    if (source.readyState !== EventSource.CLOSED) return;
    stream = undefined;
    connectIn(RECONNECT_MS);
  });
  return source;
}

/**
 * Whether the stream was opened with the query of this follower (`own`). It was not if the user has chosen another time
 * span or job since then, and the stream is not replaced yet.
 */
function matchesQuery(own: Query, query: Query): boolean {
  return Object.entries(own).every(([name, value]) => query[name] === value);
}
