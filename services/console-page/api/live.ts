import type { Query } from "../url-fragment.ts";
import { Refused, urlOf } from "./ask.ts";

/** What the service tells of by itself. */
export type LiveName = "overview" | "flow" | "jobs";

type Follower = {
  name: LiveName;
  /** What a GET of the same would be asked with. */
  query: Query;
  take(data: unknown): void;
  fail(refused: Refused): void;
};

/** With what the stream has to be asked, so that it tells of this. */
const ASKED: Readonly<Record<LiveName, (query: Query) => Query>> = {
  overview: () => ({}),
  flow: ({ span, job }) => ({ flow: span, job }),
  jobs: () => ({ jobs: "true" }),
};

/** The service tells of the overview every two seconds. A connection may be dead without having closed. */
const SILENT_MS = 10_000;
/** After a refusal, as where too many streams are open. */
const AGAIN_MS = 15_000;

/*
 * One stream of server-sent events for the whole page. While there is none, as behind a proxy that holds answers back, use-answer.ts asks now
 * and then. A page that nobody sees has none: a browser has six connections to a service at most, for all of its tabs together.
 */
const followers = new Set<Follower>();
let stream: { url: string; source: EventSource } | undefined;
let heardAt = Number.NEGATIVE_INFINITY;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Whether the stream has told something just now, so that nobody needs to ask. */
export function isLive(): boolean {
  return stream !== undefined && Date.now() - heardAt < SILENT_MS;
}

/** Tells the follower of what is new, until the function that it answers is called. */
export function followLive(follower: Follower): () => void {
  followers.add(follower);
  connectIn(0);
  return () => {
    followers.delete(follower);
    connectIn(0);
  };
}

document.addEventListener("visibilitychange", () => connectIn(0));

/** One page closes and the next one opens in the same moment. */
function connectIn(ms: number): void {
  clearTimeout(timer);
  timer = setTimeout(connect, ms);
}

function connect(): void {
  const wanted = [...followers];
  const query = Object.assign({}, ...wanted.map(({ name, query: own }) => ASKED[name](own))) as Query;
  const url = document.hidden || wanted.length === 0 ? undefined : urlOf("api/v1/live", query).href;
  if (url === stream?.url) return;
  stream?.source.close();
  heardAt = Number.NEGATIVE_INFINITY;
  stream = url === undefined ? undefined : { url, source: open(url, query) };
}

function open(url: string, query: Query): EventSource {
  const source = new EventSource(url);
  const hear = (name: string, tell: (follower: Follower) => void): void => {
    heardAt = Date.now();
    for (const each of followers)
      if (each.name === name && isPartOf(ASKED[each.name](each.query), query)) tell(each);
  };
  for (const name of Object.keys(ASKED))
    source.addEventListener(name, ({ data }: MessageEvent<string>) => {
      const told: unknown = JSON.parse(data);
      hear(name, ({ take }) => take(told));
    });
  source.addEventListener("unavailable", ({ data }: MessageEvent<string>) => {
    const { of, code, status, detail } = JSON.parse(data) as Record<"of" | "code" | "detail", string> & {
      status: number;
    };
    hear(of, ({ fail }) => fail(new Refused(code, { status, detail })));
  });
  source.addEventListener("error", () => {
    if (source !== stream?.source) return;
    heardAt = Number.NEGATIVE_INFINITY;
    // The browser comes again by itself after a connection that broke, and not after a refusal.
    if (source.readyState !== EventSource.CLOSED) return;
    stream = undefined;
    connectIn(AGAIN_MS);
  });
  return source;
}

/** Another span or job may be asked for by now. */
function isPartOf(own: Query, query: Query): boolean {
  return Object.entries(own).every(([name, value]) => query[name] === value);
}
