import type { IncomingMessage, ServerResponse } from "node:http";
import type { Changes } from "../call/results/changes.ts";
import { createCheckLoop } from "../call/results/look.ts";
import type { CallStatus, Results } from "../call/results/store.ts";
import { markAuthenticated } from "../http/authenticated.ts";
import {
  type EventStream,
  lastEventId,
  openEventStream,
  RETRY_MS,
  retryDelayMs,
  sendEmptyStream,
  sendNoContent,
} from "../http/event-stream.ts";
import { hasInputEnded } from "../http/input-end.ts";
import { AppError, toAppError } from "../platform/errors/app-error.ts";
import { createEventCounter } from "../platform/log/event-counter.ts";
import type { Logger } from "../platform/log/logger.ts";
import type { Clock } from "../platform/time/clock.ts";
import { createCallEvents } from "./call-events.ts";

/*
 * Call streams: server-sent events (call-events.ts) that report a call's state, and each change until the call has
 * ended. Events are never queued for a client. Instead, the call is read at each change, and the client gets the events
 * that show the present state. So a client that reads slowly misses the states in between.
 */

type StreamLimits = {
  /** Limit on the gateway's open streams; 0 disables streams. Unauthenticated clients get at most half. */
  streamsMax: number;
  /** Limit on the streams of one call. Unauthenticated streams are counted separately. */
  perCallMax: number;
};

/** Limit on the unauthenticated streams of one address. */
const UNAUTHENTICATED_PER_ADDRESS = 16;

type Times = {
  /** Interval at which each stream gets a comment, so that proxies do not close the idle connection. */
  heartbeatMs: number;
  /** Time after which a client that reads nothing is disconnected. */
  stalledMs: number;
  /** Time after which a stream is ended. Its client then reconnects. */
  lifeMs: number;
  /** Delay before a failed read of a call is repeated. */
  lookAgainMs: number;
};

const TIMES: Times = { heartbeatMs: 15_000, stalledMs: 30_000, lifeMs: 3_600_000, lookAgainMs: 1000 };

/** Client that watches a call. */
type Watcher = {
  callId: string;
  isAuthenticated: boolean;
  /** Rate-limit key of the client's address. */
  clientKey: string;
  /** Whether the stream may open before the call has a record in Redis. */
  mayBegin: boolean;
};

export type CallStreams = {
  /**
   * Answers a request with the stream of this call. Throws `request.not_found` if there is no such call or streams are
   * disabled. Throws `request.rate_limited` at a limit, and an error if the call cannot be read.
   */
  open(req: IncomingMessage, res: ServerResponse, watcher: Watcher): Promise<void>;
  /** Returns the number of open streams. */
  count(): number;
  /**
   * Ends all streams, and from then on ends each new stream at once. It is called when the gateway shuts down. The clients
   * reconnect, and reach another replica of the gateway.
   */
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

/**
 * `ended`: the call has ended. `left`: the client is gone or was disconnected. `stopped`: the gateway shuts down or
 * cannot read the call. `outlived`: the stream has reached `lifeMs`.
 */
type Ending = "ended" | "left" | "stopped" | "outlived";

type Stream = {
  readonly since: number;
  /** Sends the events that the client lacks, and ends the stream if the call has ended. */
  update(status: CallStatus): void;
  heartbeat(): void;
  end(ending: Ending, retryMs?: number): void;
};

/** Manages the streams of a gateway. Each keeps a client's connection open. */
export function createCallStreams(deps: Deps): CallStreams {
  const { results, limits, clock, log } = deps;
  const times = { ...TIMES, ...deps.times };
  const slots = createSlots(limits, log);
  const watching = createWatching(deps, times);
  let isEnding = false;

  function createStream({ callId, isAuthenticated }: Watcher, req: IncomingMessage, freeSlot: () => void) {
    const callEvents = createCallEvents({ callId, isAuthenticated }, lastEventId(req));
    let events: EventStream | undefined;
    let ending: Ending | undefined;
    const stream: Stream = {
      since: clock(),
      update(status) {
        if (events === undefined || !events.isReady()) return;
        events.send(callEvents.newEvents(status));
        if (callEvents.isComplete()) stream.end("ended");
      },
      heartbeat: () => events?.heartbeat(),
      end(how, retryMs) {
        if (ending !== undefined) return;
        ending = how;
        freeSlot();
        watching.leave(callId, stream);
        events?.end(retryMs);
        if (isAuthenticated) log.info("stream.ended", { callId, ending, ms: clock() - stream.since });
      },
    };
    return {
      stream,
      /**
       * Opens the stream. If the client has already received the event `end`, or the gateway shuts down, it answers
       * without events.
       */
      begin(res: ServerResponse, status: CallStatus | undefined, look: () => void): void {
        if (ending === "stopped") sendEmptyStream(res);
        else if (status !== undefined && callEvents.hadSeenEnd(status)) {
          stream.end("ended");
          sendNoContent(res);
        } else {
          const onClose = () => stream.end("left");
          const { stalledMs } = times;
          events = openEventStream(res, { stalledMs, onReady: look, onClose });
          if (status !== undefined) stream.update(status);
          // Reads the call again, and sends the changes since `status` was read.
          look();
        }
      },
    };
  }

  return {
    async open(req, res, watcher) {
      if (limits.streamsMax === 0) throw AppError.public("request.not_found", "call streams are disabled");
      if (watcher.isAuthenticated) markAuthenticated(req);
      if (isEnding || req.method === "HEAD") {
        sendEmptyStream(res);
        return;
      }
      const { stream, begin } = createStream(watcher, req, slots.take(watcher));
      try {
        // The watch for changes begins before the first read of the call, so that no change between the two is missed.
        const look = watching.join(watcher.callId, stream);
        const status = await results.status(watcher.callId);
        if (status === undefined && !watcher.mayBegin)
          throw AppError.public("request.not_found", "no such call");
        if (res.destroyed) stream.end("left");
        else begin(res, status, look);
        if (hasInputEnded(req)) stream.end("left");
      } catch (error) {
        stream.end("left");
        throw error;
      }
    },
    count: slots.taken,
    end() {
      isEnding = true;
      watching.endAll();
      slots.flush();
    },
  };
}

/**
 * Groups streams by call. The streams of one call share one watch, which reports changes of the call, and one read per
 * change. All streams share one heartbeat timer.
 */
function createWatching({ results, changes, clock }: Deps, { heartbeatMs, lifeMs, lookAgainMs }: Times) {
  type Watched = { streams: Set<Stream>; look: () => void; stop: () => void };
  const calls = new Map<string, Watched>();
  let heartbeats: NodeJS.Timeout | undefined;
  const all = () => [...calls.values()].flatMap(({ streams }) => [...streams]);

  /**
   * Sends new events to all streams of a call. Returns false if Redis did not answer, so that the call must be read
   * again soon.
   */
  async function updateAll(callId: string, streams: ReadonlySet<Stream>): Promise<boolean> {
    try {
      const status = await results.status(callId);
      for (const stream of streams) if (status !== undefined) stream.update(status);
      return true;
    } catch (error) {
      if (toAppError(error).code === "queue.unavailable") return false;
      for (const stream of streams) stream.end("stopped", retryDelayMs());
      return true;
    }
  }

  function watch(callId: string): Watched {
    const streams = new Set<Stream>();
    const look = createCheckLoop(() => updateAll(callId, streams), lookAgainMs);
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
    /** Adds a stream. Returns a function that reads the call now. */
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
      for (const stream of all()) stream.end("stopped", retryDelayMs());
    },
  };
}

/** Counts open streams against the limits. */
function createSlots({ streamsMax, perCallMax }: StreamLimits, log: Logger) {
  const counts = new Map<string, number>();
  const overLimit = createEventCounter(log, "stream.over_limit", "warn");

  /** Returns the limits that apply to a request, each with its counter. */
  function boundsOf({ callId, isAuthenticated, clientKey }: Watcher) {
    const all = { limit: "gateway", key: "all", max: streamsMax };
    if (isAuthenticated) return [all, { limit: "call", key: `proven ${callId}`, max: perCallMax }];
    return [
      all,
      { limit: "unproven", key: "unproven", max: Math.floor(streamsMax / 2) },
      { limit: "call", key: `unproven ${callId}`, max: perCallMax },
      { limit: "address", key: `address ${clientKey}`, max: UNAUTHENTICATED_PER_ADDRESS },
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

    /** Takes a slot. Returns a function that frees it. Throws `request.rate_limited`. */
    take(watcher: Watcher): () => void {
      const bounds = boundsOf(watcher);
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
