import type { Query } from "../url-fragment.ts";
import { Refused, urlOf } from "./ask.ts";

/** Kinds of data that the console streams to the page. */
export type LiveName = "overview" | "flow" | "jobs";

type Follower = {
  name: LiveName;
  /** The query that a GET of the same data would have. */
  query: Query;
  take(data: unknown): void;
  fail(refused: Refused): void;
};

/** Builds the part of the stream's URL query that requests each kind of data. */
const STREAM_QUERIES: Readonly<Record<LiveName, (query: Query) => Query>> = {
  overview: () => ({}),
  flow: ({ span, job }) => ({ flow: span, job }),
  jobs: () => ({ jobs: "true" }),
};

/**
 * The stream counts as dead after this long without an event. The console sends the overview every two seconds, and a
 * connection may be dead without having closed.
 */
const SILENT_MS = 10_000;
/** Pause before the page connects again after a refusal, for example because too many streams are open. */
const RECONNECT_MS = 15_000;

/*
 * Keeps one stream of server-sent events for the whole page. Without a stream, for example behind a proxy that
 * buffers answers, use-answer.ts polls. A hidden page has no stream, because a browser opens at most six connections
 * to a service, for all tabs together.
 */
const followers = new Set<Follower>();
let stream: { url: string; source: EventSource } | undefined;
let heardAt = Number.NEGATIVE_INFINITY;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Whether the stream has sent something recently. If so, polling is not needed. */
export function isLive(): boolean {
  return stream !== undefined && Date.now() - heardAt < SILENT_MS;
}

/** Sends new data to the follower until the returned function is called. */
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
 * Connects after `ms`. Even 0 uses a timer, so that only one connection is opened if several followers change at once,
 * for example when one page replaces another.
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
 * Whether the stream sends the data that a follower wants (`own`). It sends other data if the user has chosen another
 * span or job since the stream opened.
 */
function matchesQuery(own: Query, query: Query): boolean {
  return Object.entries(own).every(([name, value]) => query[name] === value);
}
