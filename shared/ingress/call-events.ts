import type { CallStatus, ResultRead } from "../call/results/store.ts";
import type { StreamEvent } from "../http/event-stream.ts";
import { sha256Hex } from "../platform/crypto/compare.ts";
import { toProvenStatus } from "./ask-result.ts";

/*
 * What a stream says of a call:
 *
 *   state      the state word, since when, and how many attempts have ended
 *   progress   what the runner of a long job last said
 *   end        how the call ended, and what there is to be had at `.../result`
 *
 * An event's id says all that the client has been told by then. A client that comes again with it is told what is another by now, and nothing of
 * what came and went meanwhile. Who has proven nothing is told the state word alone, and his ids say no more.
 */

/** What a client has been told of a call, and what is news to it. */
export type CallEvents = {
  /** Whether it has been told the end. */
  isEnd(): boolean;
  /** Whether it knows the end, and nothing is another by now. */
  knowsEnd(status: CallStatus): boolean;
  /** What it does not know; it does from now on. */
  news(status: CallStatus): StreamEvent[];
};

type Of = { callId: string; isAuthenticated: boolean };

/** `lastId` is what the client sends as the id of the last event that it has seen; any text. */
export function createCallEvents({ callId, isAuthenticated }: Of, lastId: string): CallEvents {
  let [state = "", progress = "", end = ""] = lastId.split(":");
  const partsOf = isAuthenticated ? provenParts : unprovenParts;
  const id = () => [state, progress, end].join(":");
  return {
    isEnd: () => end !== "",

    knowsEnd: (status) => end !== "" && partsOf(status).join(":") === id(),

    news(status) {
      const [nowState, nowProgress, nowEnd] = partsOf(status);
      const { progress: said, progress_at, ...rest } = toProvenStatus(status);
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
        // The progress is no more once there is a result.
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

function provenParts({ state, changedAt, attempts, result }: CallStatus): Parts {
  const said = result.kind === "pending" ? result.progress : undefined;
  const progress =
    said === undefined ? "" : `${said.at}-${sha256Hex(Buffer.from(said.json)).slice(0, HASH_CHARS)}`;
  return [`${state}-${changedAt}-${attempts}`, progress, ENDS[result.kind] ?? ""];
}

/** Two words of the progress may have come in one millisecond. */
const HASH_CHARS = 8;

/** What is to be had at `.../result`: the answer; or 410, 502 or 404. */
const ENDS: Partial<Record<ResultRead["kind"], string>> = {
  answer: "kept",
  too_long: "gone",
  gone: "gone",
  failed: "failed",
  failure: "failed",
  "none kept": "none_kept",
};

/** By the state word alone: whether a result is yet to come is nothing for strangers. */
function unprovenParts({ state }: CallStatus): Parts {
  return [state, "", OPEN_STATES.includes(state) ? "" : "end"];
}

const OPEN_STATES: readonly string[] = ["QUEUED", "SETTLING", "REVIEW"];
