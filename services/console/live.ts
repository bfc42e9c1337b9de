import type { IncomingMessage, ServerResponse } from "node:http";
import type { FlowSpan } from "../../shared/console/overview/flow.ts";
import type { Overview } from "../../shared/console/overview/overview.ts";
import { openEventStream, RETRY_MS, retryDelayMs, sendEmptyStream } from "../../shared/http/event-stream.ts";
import { hasInputEnded } from "../../shared/http/input-end.ts";
import { AppError, toAppError } from "../../shared/platform/errors/app-error.ts";
import { CODES } from "../../shared/platform/errors/codes.ts";
import type { ConcurrencyLimit } from "../../shared/platform/lifecycle/concurrency-limit.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import { unlessRedis } from "../../shared/redis/failure.ts";
import type { Who } from "./auth/who.ts";

/*
 * Streams of server-sent events for the page. The data of each event has the same form as the answer to the GET request for it.
 * Streams that want the same data share each read, and data that no stream wants is not read. No events are queued for a slow
 * client. When it can read again, it gets the newest event of each kind.
 */

/** Data that a stream sends besides the overview. */
export type LiveData = { flow?: FlowSpan | undefined; job?: string | undefined; jobs?: boolean | undefined };

export type LiveTimes = {
  /** Interval between reads of all data except the flow, which is the counts of calls over time. */
  everyMs: number;
  flowEveryMs: Readonly<Record<FlowSpan, number>>;
  /**
   * Interval between comments, which are sent so that the connection stays open. At the same interval, each stream's session is
   * checked.
   */
  heartbeatMs: number;
  /** A client that reads nothing for this long is disconnected. */
  stalledMs: number;
  /** A stream ends after this long. Its client then connects again, perhaps to another replica. */
  lifetimeMs: number;
};

const TIMES: LiveTimes = {
  everyMs: 2000,
  flowEveryMs: { "1h": 10_000, "24h": 60_000 },
  heartbeatMs: 5000,
  stalledMs: 30_000, // long enough to survive a short network failure
  lifetimeMs: 3_600_000,
};

/** Limits on the streams that are open at once: for this replica of the console, and for one client name. */
const STREAMS_MAX = 64;
const PER_NAME_MAX = 16;

type StreamClient = {
  who: Who;
  /** Whether the client's session is still valid. Throws if that cannot be checked now. */
  isValid: () => Promise<boolean>;
};

/** Sends events to a stream until the returned function is called. */
export type Feed = (stream: Pick<Stream, "send" | "waiting" | "end">) => () => void;

export type Live = {
  /** Answers with a stream of the deployment's state. Throws `request.rate_limited` if there are too many streams. */
  open(req: IncomingMessage, res: ServerResponse, asking: StreamClient & { wanted: LiveData }): void;
  /** Answers with a stream of events from `feed`, with the same limits as `open`. */
  openFeed(req: IncomingMessage, res: ServerResponse, asking: StreamClient & { feed: Feed }): void;
  /** Ends the streams whose sessions have ended. */
  check(): Promise<void>;
  count(): number;
  /**
   * Ends all streams, and from then on ends each new stream at once. This replica stops, so the clients must connect to another
   * one.
   */
  end(): void;
};

type Deps = {
  overview: Pick<Overview, "read" | "flow">;
  listJobs: () => Promise<object>;
  heavy: ConcurrencyLimit;
  /** Throws if Redis cannot be used now. */
  assertUsable: () => void;
  /** Called with the error of each failed read. */
  note: (error: AppError) => void;
  clock: Clock;
  times?: Partial<LiveTimes> | undefined;
};

/** Manages the streams of a replica. Each stream is one answer that stays open. */
export function createLive(deps: Deps): Live {
  const { clock } = deps;
  const times = { ...TIMES, ...deps.times };
  const readings = createReadings(deps);
  const readingsOf = createReadingsOf(deps, times);
  const streams = new Set<Stream>();
  let beats: NodeJS.Timeout | undefined;
  let isEnding = false;

  function assertRoom({ name }: Who): void {
    const own = [...streams].filter((each) => each.name === name).length;
    if (streams.size < STREAMS_MAX && own < PER_NAME_MAX) return;
    const detail = "too many streams are open; close one, or poll the API";
    throw AppError.public("request.rate_limited", detail, { retryAfterMs: 10_000 });
  }

  async function check(): Promise<void> {
    const endIfOver = async (stream: Stream) => {
      // If the session cannot be checked now, the stream stays open. Redis is then unavailable, so the stream has nothing to
      // send.
      if (!(await stream.isValid().catch(() => true))) stream.end();
    };
    await Promise.all([...streams].map(endIfOver));
  }

  function beat(): void {
    const now = clock();
    for (const stream of streams) {
      if (now - stream.since >= times.lifetimeMs) stream.end(RETRY_MS);
      else stream.heartbeat();
    }
    void check();
  }

  function leave(stream: Stream): void {
    for (const leaveReading of stream.leaves.splice(0)) leaveReading();
    streams.delete(stream);
    if (streams.size > 0) return;
    clearInterval(beats);
    beats = undefined;
  }

  function openFeed(
    req: IncomingMessage,
    res: ServerResponse,
    { feed, ...asking }: StreamClient & { feed: Feed },
  ): void {
    // The client may have disconnected while its session was checked. Its `close` event has then passed and does not
    // come again.
    if (res.destroyed) return;
    if (isEnding || req.method === "HEAD" || hasInputEnded(req)) {
      sendEmptyStream(res);
      return;
    }
    assertRoom(asking.who);
    const stream = openStream(res, asking, { clock, stalledMs: times.stalledMs, onEnd: leave });
    streams.add(stream);
    beats ??= setInterval(beat, times.heartbeatMs);
    stream.leaves.push(feed(stream));
  }

  return {
    open(req, res, { wanted, ...asking }) {
      const feed: Feed = (stream) => {
        const leaves = readingsOf(wanted).map((reading) =>
          readings.join(reading, (told) => stream.send(reading.event, told)),
        );
        return () => {
          for (const leaveReading of leaves) leaveReading();
        };
      };
      openFeed(req, res, { ...asking, feed });
    },
    openFeed,
    check,
    count: () => streams.size,
    end() {
      isEnding = true;
      for (const stream of streams) stream.end(retryDelayMs());
    },
  };
}

type Stream = {
  readonly name: string;
  readonly since: number;
  readonly isValid: StreamClient["isValid"];
  /** Functions to call when the stream ends. They stop the reads or the feed for it. */
  readonly leaves: (() => void)[];
  /** Sends an event. It replaces an unsent event with the same key. */
  send(key: string, told: LiveEvent): void;
  /** Number of events that a slow reader has not received. */
  waiting(): number;
  heartbeat(): void;
  end(retryMs?: number): void;
};

type Opening = { clock: Clock; stalledMs: number; onEnd: (stream: Stream) => void };

/** Begins the answer. While the client does not read, keeps only the newest event of each key for it. */
function openStream(
  res: ServerResponse,
  { who, isValid }: StreamClient,
  { clock, stalledMs, onEnd }: Opening,
): Stream {
  const unsent = new Map<string, LiveEvent>();
  const endsAt = who.until ?? Number.POSITIVE_INFINITY;
  let number = 0;
  const onClose = () => stream.end();
  const events = openEventStream(res, { stalledMs, onReady: send, onClose });

  function send(): void {
    if (clock() >= endsAt) stream.end();
    else if (events.isReady()) {
      const pending = [...unsent.values()].map(({ event, data }) => ({ event, data, id: String(++number) }));
      unsent.clear();
      events.send(pending);
    }
  }

  const stream: Stream = {
    name: who.name,
    since: clock(),
    isValid,
    leaves: [],
    send(key, told) {
      unsent.set(key, told);
      send();
    },
    waiting: () => unsent.size,
    heartbeat: events.heartbeat,
    end(retryMs) {
      onEnd(stream);
      events.end(retryMs);
    },
  };
  return stream;
}

function createReadingsOf({ overview, heavy, listJobs }: Deps, { everyMs, flowEveryMs }: LiveTimes) {
  const whole = (read: () => Promise<object>) => async () => {
    const data = await read();
    return () => data;
  };
  return ({ flow, job, jobs = false }: LiveData): Reading[] => {
    const wanted: Reading[] = [
      { event: "overview", key: "overview", everyMs, job: undefined, read: whole(overview.read) },
    ];
    if (jobs) wanted.push({ event: "jobs", key: "jobs", everyMs, job: undefined, read: whole(listJobs) });
    if (flow !== undefined) {
      const read = () => heavy.within(() => overview.flow.readAll(flow));
      wanted.push({ event: "flow", key: `flow ${flow}`, everyMs: flowEveryMs[flow], job, read });
    }
    return wanted;
  };
}

/**
 * A kind of data that is read at intervals. Streams whose `key` is the same share each read. They may want the parts of
 * different jobs.
 */
type Reading = {
  event: string;
  key: string;
  everyMs: number;
  /** Job whose part of the data this stream wants; undefined for the data of all jobs together. */
  job: string | undefined;
  read: () => Promise<(job: string | undefined) => object>;
};

/** An event for a stream. It has the newest data or, if the data cannot be read now, is `unavailable` with the reason. */
type LiveEvent = { event: string; data: object };

type SendEvent = (told: LiveEvent) => void;

type ReadingDeps = Pick<Deps, "assertUsable" | "note">;

function createReadings(safely: ReadingDeps) {
  const shared = new Map<string, ReturnType<typeof shareReading>>();
  return {
    /** Sends the newest event at once, and each later one until the returned function is called. */
    join(reading: Reading, tell: SendEvent): () => void {
      const { key, job } = reading;
      const own = shared.get(key) ?? shareReading(reading, safely);
      shared.set(key, own);
      own.add(job, tell);
      return () => {
        if (own.remove(job, tell) === 0 && shared.get(key) === own) shared.delete(key);
      };
    },
  };
}

/**
 * The streams that want the part of the same job, and the data that was last sent to them, as JSON. If the next read gives the
 * same data, nothing is sent.
 */
type Listeners = { callbacks: Set<SendEvent>; last: string | undefined };

/** Reads the data at intervals, and sends it to all listeners, until the last listener has left. */
function shareReading(reading: Reading, safely: ReadingDeps) {
  const listenersByJob = new Map<string | undefined, Listeners>();
  let newest: ((job: string | undefined) => LiveEvent) | undefined;
  let timer: NodeJS.Timeout | undefined;

  async function readAndSend(): Promise<void> {
    const found = await readOnce(reading, safely);
    if (listenersByJob.size === 0) return;
    newest = found;
    for (const [job, listeners] of listenersByJob) {
      const told = found(job);
      const json = JSON.stringify(told.data);
      // A failed read is reported each time, even if the message is the same. Otherwise clients would think that the stream is
      // dead.
      const isNew = told.event === UNAVAILABLE || json !== listeners.last;
      listeners.last = json;
      if (isNew) for (const tell of listeners.callbacks) tell(told);
    }
    timer = setTimeout(readAndSend, reading.everyMs);
  }

  return {
    add(job: string | undefined, tell: SendEvent): void {
      const isFirst = listenersByJob.size === 0;
      const known = listenersByJob.get(job) ?? { callbacks: new Set(), last: undefined };
      listenersByJob.set(job, known);
      known.callbacks.add(tell);
      if (newest !== undefined) {
        const told = newest(job);
        known.last ??= JSON.stringify(told.data);
        tell(told);
      }
      if (isFirst) void readAndSend();
    },
    /** Removes a listener. Returns the number of jobs that still have listeners. */
    remove(job: string | undefined, tell: SendEvent): number {
      const known = listenersByJob.get(job);
      known?.callbacks.delete(tell);
      if (known?.callbacks.size === 0) listenersByJob.delete(job);
      if (listenersByJob.size === 0) clearTimeout(timer);
      return listenersByJob.size;
    },
  };
}

const UNAVAILABLE = "unavailable";

async function readOnce(
  { event, read }: Reading,
  { assertUsable, note }: ReadingDeps,
): Promise<(job: string | undefined) => LiveEvent> {
  try {
    assertUsable();
    const dataOf = await read();
    return (job) => ({ event, data: dataOf(job) });
  } catch (thrown) {
    const error = toAppError(unlessRedis(thrown));
    note(error);
    const { code, publicDetail: detail } = error;
    const data = { of: event, status: CODES[code].status, code, detail };
    return () => ({ event: UNAVAILABLE, data });
  }
}
