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
  /** Of what was written there; undefined if it is no JSON. Only the first call has it, so that no large body stays behind. */
  takeStored: () => unknown;
  /** Counts from 1 the attempts that are spent since the call was queued or last replayed. */
  attempt: number;
  /** How often it was taken. */
  take: number;
};

/** Delivers one call and decides what happens to it. Should stop early if `hold` is lost. Must not throw. */
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

/** Undefined if it is no JSON. The text goes. */
function parsed(fetched: FetchedCall): unknown {
  const text = fetched.data;
  fetched.data = "";
  return parseJson(text);
}
