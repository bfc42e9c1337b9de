import type { Origin } from "../call/origin.ts";
import type { ErrorCode } from "../platform/errors/codes.ts";

/* What a search for calls (search.ts) is asked, and what it finds. */

/** Where a call is. Those below `injected` are of a call whose payment is or was on its way, or which has ended without running. */
export const CALL_STATES = [
  "waiting",
  "delayed",
  "held",
  "active",
  "failed",
  "injected",
  "settling",
  "review",
  "void",
  "discarded",
  "refund_pending",
  "refunded",
  /** Its record says that it is queued, and its queue does not have it. */
  "missing",
] as const;
export type CallState = (typeof CALL_STATES)[number];

/** What a search can ask for: a state, or all calls that are accepted and have not ended. */
export const SEARCHED_STATES = [...CALL_STATES, "queued"] as const;
type SearchedState = (typeof SEARCHED_STATES)[number];

/** A call that was found, without its body. The times are unix ms. What is not known of it is undefined. */
export type FoundCall = {
  id: string;
  state: CallState;
  /** When it came into this state, was queued or was last sent: what the calls are sorted by. */
  at: number;
  origin: string | undefined;
  /** `<service id>/<job index>` */
  job: string | undefined;
  endpoint: string | undefined;
  deliveryId: string | undefined;
  payer: string | undefined;
  transaction: string | undefined;
  /** The sender's type of the event. */
  event: string | undefined;
  acceptedAt: number | undefined;
  endedAt: number | undefined;
  /** Of a call in its queue, those since it was queued or last replayed. */
  attempts: number | undefined;
  /** Why it failed, or its last failed attempt did. */
  code: ErrorCode | undefined;
  reason: string | undefined;
};

/** Selects calls that meet every field present. `since` and `until` are of the call's `at`, both inclusive. */
export type CallSearch = {
  /** Text that is given by hand (shared/call/search-text.ts). */
  text?: string | undefined;
  /** A whole id, or a prefix of it. */
  id?: string | undefined;
  deliveryId?: string | undefined;
  endpoint?: string | undefined;
  /** Lower case, as the transaction. */
  payer?: string | undefined;
  transaction?: string | undefined;
  event?: string | undefined;
  code?: ErrorCode | undefined;
  origin?: Origin | undefined;
  job?: string | undefined;
  state?: SearchedState | undefined;
  since?: number | undefined;
  until?: number | undefined;
};

export type FoundPage = {
  /** Newest first. */
  calls: FoundCall[];
  /** For the next page; undefined if there is none. */
  next: PageCursor | undefined;
  /** False if there may be more that match: the time was up, a queue holds more calls than are looked at, or `isUnlisted`. */
  isComplete: boolean;
  /** Whether calls in the state that is asked for may be known by their records alone, which are found only by an id. */
  isUnlisted: boolean;
};

/** Where a page has ended: at this time, with the calls of that time whose ids begin so. */
export type PageCursor = { at: number; ids: readonly string[] };

export type SearchCalls = (
  search: CallSearch,
  page?: { limit?: number; after?: PageCursor | undefined },
) => Promise<FoundPage>;
