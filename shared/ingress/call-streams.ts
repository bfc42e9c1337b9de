import type { IncomingMessage, ServerResponse } from "node:http";
import type { Changes } from "../call/results/changes.ts";
import { createLook } from "../call/results/look.ts";
import type { CallStatus, Results } from "../call/results/store.ts";
import { markAuthenticated } from "../http/authenticated.ts";
import {
  type EventStream,
  lastEventId,
  openEventStream,
  RETRY_MS,
  retrySoon,
  sendNoMore,
  sendNothingYet,
} from "../http/event-stream.ts";
import { hasInputEnded } from "../http/input-end.ts";
import { AppError, toAppError } from "../platform/errors/app-error.ts";
import { createEventCounter } from "../platform/log/event-counter.ts";
import type { Logger } from "../platform/log/logger.ts";
import type { Clock } from "../platform/time/clock.ts";
import { createCallEvents } from "./call-events.ts";

/*
 * Watching a call: a stream of server-sent events (call-events.ts) says how the call stands, and again whenever that changes, until it has
 * ended. Nothing is queued for a client: each look at the call tells it what is news to it, and who reads slowly is told less often.
 */

type StreamLimits = {
  /** Streams that a gateway has at a time; 0: none. At most half of them are for clients without a proof. */
  streamsMax: number;
  /** Streams of one call. Those of clients without a proof are counted separately. */
  perCallMax: number;
};

/** How many streams an address has that has proven nothing. */
const UNPROVEN_PER_ADDRESS = 16;

type Times = {
  /** How often a comment keeps the connection. */
  heartbeatMs: number;
  /** A client that reads nothing for this time is disconnected. */
  stalledMs: number;
  /** A stream ends after this time, and its client connects again. */
  lifeMs: number;
  /** A call that cannot be read is read again after this time. */
  lookAgainMs: number;
};

const TIMES: Times = { heartbeatMs: 15_000, stalledMs: 30_000, lifeMs: 3_600_000, lookAgainMs: 1000 };

/** Who asks to watch which call. */
type Asking = {
  callId: string;
  isAuthenticated: boolean;
  /** Under which the address is counted. */
  clientKey: string;
  /** Whether a call without a record may be one that will have one. */
  mayBegin: boolean;
};

export type CallStreams = {
  /**
   * Answers with the stream of this call. Throws `request.not_found` if there is no such call, or nobody may watch; `request.rate_limited` at
   * a limit; and what reading the call throws.
   */
  open(req: IncomingMessage, res: ServerResponse, asking: Asking): Promise<void>;
  /** How many there are. */
  count(): number;
  /** Ends all streams, and each that begins after it at once. Their clients come again, and find another gateway. */
  end(): void;
};

type Deps = {
  results: Pick<Results, "status">;
  changes: Pick<Changes, "watch">;
  limits: StreamLimits;
  times?: Partial<Times>;
  clock: Clock;
  log: Logger;
};

/** `left`: the client is gone, or was cut off. `stopped`: the gateway ends, or cannot read the call. */
type Ending = "ended" | "left" | "stopped" | "outlived";

type Stream = {
  readonly since: number;
  /** Tells the client what is news to it, and ends with the call. */
  tell(status: CallStatus): void;
  heartbeat(): void;
  end(ending: Ending, retryMs?: number): void;
};

/** Keeps the streams of a gateway, each with a connection of its own. */
export function createCallStreams(deps: Deps): CallStreams {
  const { results, limits, clock, log } = deps;
  const times = { ...TIMES, ...deps.times };
  const places = createPlaces(limits, log);
  const watching = createWatching(deps, times);
  let isEnding = false;

  function createStream({ callId, isAuthenticated }: Asking, req: IncomingMessage, giveUp: () => void) {
    const told = createCallEvents({ callId, isAuthenticated }, lastEventId(req));
    let events: EventStream | undefined;
    let ending: Ending | undefined;
    const stream: Stream = {
      since: clock(),
      tell(status) {
        if (events === undefined || !events.isReady()) return;
        events.send(told.news(status));
        if (told.isEnd()) stream.end("ended");
      },
      heartbeat: () => events?.heartbeat(),
      end(how, retryMs) {
        if (ending !== undefined) return;
        ending = how;
        giveUp();
        watching.leave(callId, stream);
        events?.end(retryMs);
        if (isAuthenticated) log.info("stream.ended", { callId, ending, ms: clock() - stream.since });
      },
    };
    return {
      stream,
      /** Begins the answer by what the first look has shown. */
      begin(res: ServerResponse, status: CallStatus | undefined, look: () => void): void {
        if (ending === "stopped") sendNothingYet(res);
        else if (status !== undefined && told.knowsEnd(status)) {
          stream.end("ended");
          sendNoMore(res);
        } else {
          const onClose = () => stream.end("left");
          const { stalledMs } = times;
          events = openEventStream(res, { stalledMs, onReady: look, onClose });
          if (status !== undefined) stream.tell(status);
          // For what has changed since that look.
          look();
        }
      },
    };
  }

  return {
    async open(req, res, asking) {
      if (limits.streamsMax === 0) throw AppError.public("request.not_found", "call streams are disabled");
      if (asking.isAuthenticated) markAuthenticated(req);
      if (isEnding || req.method === "HEAD") {
        sendNothingYet(res);
        return;
      }
      const { stream, begin } = createStream(asking, req, places.take(asking));
      try {
        // It watches before it looks, so it misses nothing.
        const look = watching.join(asking.callId, stream);
        const status = await results.status(asking.callId);
        if (status === undefined && !asking.mayBegin)
          throw AppError.public("request.not_found", "no such call");
        if (res.destroyed) stream.end("left");
        else begin(res, status, look);
        if (hasInputEnded(req)) stream.end("left");
      } catch (error) {
        stream.end("left");
        throw error;
      }
    },
    count: places.taken,
    end() {
      isEnding = true;
      watching.endAll();
      places.flush();
    },
  };
}

/** The streams by their calls: those of one call share one watch, and one look at each change. All share one timer. */
function createWatching({ results, changes, clock }: Deps, { heartbeatMs, lifeMs, lookAgainMs }: Times) {
  type Watched = { streams: Set<Stream>; look: () => void; stop: () => void };
  const calls = new Map<string, Watched>();
  let heartbeats: NodeJS.Timeout | undefined;
  const all = () => [...calls.values()].flatMap(({ streams }) => [...streams]);

  /** False if the call is to be looked at again soon. */
  async function tellAll(callId: string, streams: ReadonlySet<Stream>): Promise<boolean> {
    try {
      const status = await results.status(callId);
      for (const stream of streams) if (status !== undefined) stream.tell(status);
      return true;
    } catch (error) {
      if (toAppError(error).code === "queue.unavailable") return false;
      for (const stream of streams) stream.end("stopped", retrySoon());
      return true;
    }
  }

  function watch(callId: string): Watched {
    const streams = new Set<Stream>();
    const look = createLook(() => tellAll(callId, streams), lookAgainMs);
    const stopWatching = changes.watch(callId, look.now);
    const stop = (): void => {
      stopWatching();
      look.stop();
    };
    const watched = { streams, look: look.now, stop };
    calls.set(callId, watched);
    heartbeats ??= setInterval(beat, heartbeatMs);
    return watched;
  }

  function beat(): void {
    const now = clock();
    for (const stream of all()) {
      if (now - stream.since >= lifeMs) stream.end("outlived", RETRY_MS);
      else stream.heartbeat();
    }
  }

  return {
    /** Returns how to look at the call now. */
    join(callId: string, stream: Stream): () => void {
      const watched = calls.get(callId) ?? watch(callId);
      watched.streams.add(stream);
      return watched.look;
    },

    leave(callId: string, stream: Stream): void {
      const watched = calls.get(callId);
      if (!watched?.streams.delete(stream) || watched.streams.size > 0) return;
      watched.stop();
      calls.delete(callId);
      if (calls.size > 0) return;
      clearInterval(heartbeats);
      heartbeats = undefined;
    },

    endAll(): void {
      for (const stream of all()) stream.end("stopped", retrySoon());
    },
  };
}

/** Counts the streams, against what each may take of them. */
function createPlaces({ streamsMax, perCallMax }: StreamLimits, log: Logger) {
  const counts = new Map<string, number>();
  const overLimit = createEventCounter(log, "stream.over_limit", "warn");

  /** Each bound with what is counted under it. */
  function boundsOf({ callId, isAuthenticated, clientKey }: Asking) {
    const all = { limit: "gateway", key: "all", max: streamsMax };
    if (isAuthenticated) return [all, { limit: "call", key: `proven ${callId}`, max: perCallMax }];
    return [
      all,
      { limit: "unproven", key: "unproven", max: Math.floor(streamsMax / 2) },
      { limit: "call", key: `unproven ${callId}`, max: perCallMax },
      { limit: "address", key: `address ${clientKey}`, max: UNPROVEN_PER_ADDRESS },
    ];
  }

  function add(key: string, more: number): void {
    const count = (counts.get(key) ?? 0) + more;
    if (count === 0) counts.delete(key);
    else counts.set(key, count);
  }

  return {
    taken: () => counts.get("all") ?? 0,
    flush: () => overLimit.flush(),

    /** Returns how to give the place up. Throws `request.rate_limited`. */
    take(asking: Asking): () => void {
      const bounds = boundsOf(asking);
      const full = bounds.find(({ key, max }) => (counts.get(key) ?? 0) >= max);
      if (full !== undefined) {
        overLimit.count(full.limit, { limit: full.limit });
        const detail = "too many call streams are open: poll the status of the call, or try again later";
        throw AppError.public("request.rate_limited", detail, { retryAfterMs: 10_000 });
      }
      for (const { key } of bounds) add(key, 1);
      return () => {
        for (const { key } of bounds) add(key, -1);
      };
    },
  };
}
