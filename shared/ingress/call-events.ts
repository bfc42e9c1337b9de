import type { CallStatus, ResultRead } from "../call/results/store.ts";
import type { StreamEvent } from "../http/event-stream.ts";
import { sha256Hex } from "../platform/crypto/compare.ts";
import { toAuthorizedStatus } from "./ask-result.ts";

/*
 * Events of a call's stream:
 *
 *   state      the state word, its start time, and the number of ended attempts
 *   progress   the latest progress of a long job
 *   end        how the call ended, and what `.../result` returns
 *
 * An event's id encodes everything that the client has received so far. A client that reconnects sends the last id that
 * it received. It then receives the events that show the present state, but none for states in between. An
 * unauthenticated client receives only the state word, and its ids encode only that.
 */

/**
 * Remembers which events of a call one client has already received, and makes the events that this client still lacks.
 */
export type CallEvents = {
  /** Returns whether the client has received the event `end`. */
  isComplete(): boolean;
  /**
   * Returns whether the client has already received the event `end`, and the call has not changed since then, for
   * example by a replay.
   */
  hadSeenEnd(status: CallStatus): boolean;
  /** Returns the events that the client lacks, and counts them as received. */
  newEvents(status: CallStatus): StreamEvent[];
};

type Options = { callId: string; isAuthenticated: boolean };

/** Creates the events for one client. `lastId` is the `Last-Event-ID` that it sends, and may be any text. */
export function createCallEvents({ callId, isAuthenticated }: Options, lastId: string): CallEvents {
  let [state = "", progress = "", end = ""] = lastId.split(":");
  const partsOf = isAuthenticated ? authenticatedParts : unauthenticatedParts;
  const id = () => [state, progress, end].join(":");
  return {
    isComplete: () => end !== "",

    hadSeenEnd: (status) => end !== "" && partsOf(status).join(":") === id(),

    newEvents(status) {
      const [nowState, nowProgress, nowEnd] = partsOf(status);
      const { progress: said, progress_at, ...rest } = toAuthorizedStatus(status);
      const { failure, ...known } = rest;
      const common = { call_id: callId, state: status.state.toLowerCase(), ...(isAuthenticated && known) };
      const events: StreamEvent[] = [];
      end = "";
      if (nowState !== state) {
        state = nowState;
        events.push({ event: "state", id: id(), data: common });
      }
      if (nowProgress !== "" && nowProgress !== progress) {
        progress = nowProgress;
        events.push({ event: "progress", id: id(), data: { call_id: callId, progress: said, progress_at } });
      }
      if (nowEnd !== "") {
        // Clears the progress in the id, because an ended call has none.
        progress = nowProgress;
        end = nowEnd;
        const data = isAuthenticated ? { ...common, result: nowEnd, ...(failure && { failure }) } : common;
        events.push({ event: "end", id: id(), data });
      }
      return events;
    },
  };
}

type Parts = [state: string, progress: string, end: string];

function authenticatedParts({ state, changedAt, attempts, result }: CallStatus): Parts {
  const said = result.kind === "pending" ? result.progress : undefined;
  const progress =
    said === undefined ? "" : `${said.at}-${sha256Hex(Buffer.from(said.json)).slice(0, HASH_CHARS)}`;
  return [`${state}-${changedAt}-${attempts}`, progress, ENDS[result.kind] ?? ""];
}

/** Length of the hash in an event's id. It distinguishes two reports of progress in the same millisecond. */
const HASH_CHARS = 8;

/**
 * Words in the event `end` for the answer that `.../result` now gives: `kept` means 200, `gone` 410, `failed` 502, and
 * `none_kept` 404.
 */
const ENDS: Partial<Record<ResultRead["kind"], string>> = {
  answer: "kept",
  too_long: "gone",
  gone: "gone",
  failed: "failed",
  failure: "failed",
  "none kept": "none_kept",
};

/**
 * Returns the parts for an unauthenticated client: only the state word, and whether the state is an end. They must not
 * reveal whether a result is still expected.
 */
function unauthenticatedParts({ state }: CallStatus): Parts {
  return [state, "", OPEN_STATES.includes(state) ? "" : "end"];
}

const OPEN_STATES: readonly string[] = ["QUEUED", "SETTLING", "REVIEW"];
