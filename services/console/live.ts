import type { IncomingMessage, ServerResponse } from "node:http";
import type { FlowSpan } from "../../shared/console/overview/flow.ts";
import type { Overview } from "../../shared/console/overview/overview.ts";
import { openEventStream, RETRY_MS, retrySoon, sendNothingYet } from "../../shared/http/event-stream.ts";
import { hasInputEnded } from "../../shared/http/input-end.ts";
import { AppError, toAppError } from "../../shared/platform/errors/app-error.ts";
import { CODES } from "../../shared/platform/errors/codes.ts";
import type { ConcurrencyLimit } from "../../shared/platform/lifecycle/concurrency-limit.ts";
import type { Clock } from "../../shared/platform/time/clock.ts";
import { unlessRedis } from "../../shared/redis/failure.ts";
import type { Who } from "./auth/who.ts";

/*
 * What is live on the page: a stream of server-sent events that says how the deployment is, each time in the form in which a GET answers
 * the same. Streams that want the same share one reading of it; what no stream wants is not read. Nothing is queued for a client that
 * reads slowly: once it reads on, it gets the newest of each.
 */

/** What a stream tells of beside the overview. */
export type Wanted = { flow?: FlowSpan | undefined; job?: string | undefined; jobs?: boolean | undefined };

export type LiveTimes = {
  /** How often what is read of now is read. */
  everyMs: number;
  flowEveryMs: Readonly<Record<FlowSpan, number>>;
  /** How often a comment keeps the connection, and whether each session still holds is asked. */
  beatMs: number;
  /** Who reads nothing for so long is cut off. */
  stalledMs: number;
  /** A stream ends after so long, and its client comes again. */
  lifeMs: number;
};

const TIMES: LiveTimes = {
  everyMs: 2000,
  flowEveryMs: { "1h": 10_000, "24h": 60_000 },
  beatMs: 5000,
  stalledMs: 30_000, // long enough for a network that comes back
  lifeMs: 3_600_000,
};

/** How many streams a replica has at a time, and how many of them under one name. */
const STREAMS_MAX = 64;
const PER_NAME_MAX = 16;

type Asking = {
  who: Who;
  /** Whether who asks still may. Throws if that cannot be told now. */
  holds: () => Promise<boolean>;
};

/** Tells a stream of something, until the function that it returns is called. */
export type Feed = (stream: Pick<Stream, "tell" | "waiting" | "end">) => () => void;

export type Live = {
  /** Answers with a stream of how the deployment is. Throws `request.rate_limited` if there are too many. */
  open(req: IncomingMessage, res: ServerResponse, asking: Asking & { wanted: Wanted }): void;
  /** As `open`, with a stream of what something else tells. */
  openFed(req: IncomingMessage, res: ServerResponse, asking: Asking & { feed: Feed }): void;
  /** Ends the streams of sessions that have ended. */
  check(): Promise<void>;
  count(): number;
  /** Ends all streams, and each that begins after it at once. Their clients come again, and find another replica. */
  end(): void;
};

type Deps = {
  overview: Pick<Overview, "read" | "flow">;
  listJobs: () => Promise<object>;
  heavy: ConcurrencyLimit;
  /** Throws if nothing can be asked of Redis now. */
  assertUsable: () => void;
  /** Told of each reading that failed. */
  note: (error: AppError) => void;
  clock: Clock;
  times?: Partial<LiveTimes> | undefined;
};

/** Keeps the streams of a replica, each with a connection of its own. */
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
      // If that cannot be told, Redis is away, and the stream has nothing to tell.
      if (!(await stream.holds().catch(() => true))) stream.end();
    };
    await Promise.all([...streams].map(endIfOver));
  }

  function beat(): void {
    const now = clock();
    for (const stream of streams) {
      if (now - stream.since >= times.lifeMs) stream.end(RETRY_MS);
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

  function openFed(
    req: IncomingMessage,
    res: ServerResponse,
    { feed, ...asking }: Asking & { feed: Feed },
  ): void {
    // Its client left while it was asked who that is: nothing would say so again.
    if (res.destroyed) return;
    if (isEnding || req.method === "HEAD" || hasInputEnded(req)) {
      sendNothingYet(res);
      return;
    }
    assertRoom(asking.who);
    const stream = openStream(res, asking, { clock, stalledMs: times.stalledMs, onEnd: leave });
    streams.add(stream);
    beats ??= setInterval(beat, times.beatMs);
    stream.leaves.push(feed(stream));
  }

  return {
    open(req, res, { wanted, ...asking }) {
      const feed: Feed = (stream) => {
        const leaves = readingsOf(wanted).map((reading) =>
          readings.join(reading, (told) => stream.tell(reading.event, told)),
        );
        return () => {
          for (const leaveReading of leaves) leaveReading();
        };
      };
      openFed(req, res, { ...asking, feed });
    },
    openFed,
    check,
    count: () => streams.size,
    end() {
      isEnding = true;
      for (const stream of streams) stream.end(retrySoon());
    },
  };
}

type Stream = {
  readonly name: string;
  readonly since: number;
  readonly holds: Asking["holds"];
  /** How to be told of its readings no more. */
  readonly leaves: (() => void)[];
  /** Replaces an event that waits under the same key. */
  tell(key: string, told: LiveEvent): void;
  /** How many events a slow reader has not taken. */
  waiting(): number;
  heartbeat(): void;
  end(retryMs?: number): void;
};

type Opening = { clock: Clock; stalledMs: number; onEnd: (stream: Stream) => void };

/** Begins the answer. The newest of each reading is sent as soon as the client takes it. */
function openStream(
  res: ServerResponse,
  { who, holds }: Asking,
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
      const news = [...unsent.values()].map(({ event, data }) => ({ event, data, id: String(++number) }));
      unsent.clear();
      events.send(news);
    }
  }

  const stream: Stream = {
    name: who.name,
    since: clock(),
    holds,
    leaves: [],
    tell(key, told) {
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
  return ({ flow, job, jobs = false }: Wanted): Reading[] => {
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

/** Something that is read again and again, under a key by which streams share it. */
type Reading = {
  event: string;
  key: string;
  everyMs: number;
  /** What was read is told as it is for this job. */
  job: string | undefined;
  read: () => Promise<(job: string | undefined) => object>;
};

/** What a reading has come to: its event, or `unavailable` and why. */
type LiveEvent = { event: string; data: object };

type Tell = (told: LiveEvent) => void;

type Safely = Pick<Deps, "assertUsable" | "note">;

function createReadings(safely: Safely) {
  const shared = new Map<string, ReturnType<typeof share>>();
  return {
    /** Tells what is known of it at once, and what is new, until the function that it answers is called. */
    join(reading: Reading, tell: Tell): () => void {
      const { key, job } = reading;
      const own = shared.get(key) ?? share(reading, safely);
      shared.set(key, own);
      own.add(job, tell);
      return () => {
        if (own.remove(job, tell) === 0 && shared.get(key) === own) shared.delete(key);
      };
    },
  };
}

/** Those who are told the same, and what they were told last. */
type Listeners = { tells: Set<Tell>; last: string | undefined };

/** Reads from now on, until the last that is to be told has gone. */
function share(reading: Reading, safely: Safely) {
  const byJob = new Map<string | undefined, Listeners>();
  let newest: ((job: string | undefined) => LiveEvent) | undefined;
  let timer: NodeJS.Timeout | undefined;

  async function look(): Promise<void> {
    const found = await readOnce(reading, safely);
    if (byJob.size === 0) return;
    newest = found;
    for (const [job, listeners] of byJob) {
      const told = found(job);
      const json = JSON.stringify(told.data);
      // That nothing can be read is said each time: the client is not to think that the stream has died.
      const isNew = told.event === UNAVAILABLE || json !== listeners.last;
      listeners.last = json;
      if (isNew) for (const tell of listeners.tells) tell(told);
    }
    timer = setTimeout(look, reading.everyMs);
  }

  return {
    add(job: string | undefined, tell: Tell): void {
      const isFirst = byJob.size === 0;
      const known = byJob.get(job) ?? { tells: new Set(), last: undefined };
      byJob.set(job, known);
      known.tells.add(tell);
      if (newest !== undefined) {
        const told = newest(job);
        known.last ??= JSON.stringify(told.data);
        tell(told);
      }
      if (isFirst) void look();
    },
    /** Answers for how many jobs there is still somebody to be told. */
    remove(job: string | undefined, tell: Tell): number {
      const known = byJob.get(job);
      known?.tells.delete(tell);
      if (known?.tells.size === 0) byJob.delete(job);
      if (byJob.size === 0) clearTimeout(timer);
      return byJob.size;
    },
  };
}

const UNAVAILABLE = "unavailable";

async function readOnce(
  { event, read }: Reading,
  { assertUsable, note }: Safely,
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
