import { parseJson } from "../../../shared/platform/text/parse-json.ts";
import type { FetchedCall } from "../../../shared/queue/backend.ts";
import type { QueueName } from "../../../shared/queue/queue-name.ts";
import type { Verdict } from "./finish.ts";
import { type Held, Hold } from "./hold.ts";

/** A call taken from its queue. */
export type Taken = Pick<
  FetchedCall,
  "id" | "record" | "crashes" | "queuedAt" | "attemptsBefore" | "lastFailure" | "heldUntil"
> & {
  queue: QueueName;
  /**
   * Returns the parsed JSON of the stored call; undefined if the call is not JSON. Can be called only once, because it drops
   * the text, so that the memory of a large body can be freed.
   */
  takeStored: () => unknown;
  /** Number of this attempt, from 1, since the call was queued or last replayed. */
  attempt: number;
  /** Number of times that the call was taken, including this one and takes before replays. */
  take: number;
};

/**
 * Delivers one call to its runner or receiver, and returns the verdict on it. Should stop early if `hold` is lost. Must not
 * throw.
 */
export type Deliver = (taken: Taken, hold: Hold) => Promise<Verdict>;

export function toHeld(
  queue: QueueName,
  token: string,
  { id, windowMs, attemptsStarted, crashes }: FetchedCall,
): Held {
  return { queue, id, token, hold: new Hold(), windowMs, take: attemptsStarted, crashes };
}

export function toTaken(queue: QueueName, fetched: FetchedCall): Taken {
  const { id, record, attemptsMade, attemptsBefore, attemptsStarted, crashes, queuedAt, heldUntil } = fetched;
  const { lastFailure } = fetched;
  return {
    id,
    queue,
    takeStored: () => parsed(fetched),
    record,
    attempt: attemptsMade + 1,
    take: attemptsStarted,
    attemptsBefore,
    lastFailure,
    crashes,
    queuedAt,
    heldUntil,
  };
}

/**
 * Parses the stored call; returns undefined if it is not JSON. Drops the reference to the text, so that it can be freed.
 */
function parsed(fetched: FetchedCall): unknown {
  const text = fetched.data;
  fetched.data = "";
  return parseJson(text);
}
