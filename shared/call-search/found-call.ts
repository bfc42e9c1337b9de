import type { Origin } from "../call/origin.ts";
import type { ErrorCode } from "../platform/errors/codes.ts";

/* Requests and results of a search for calls (search.ts). */

/**
 * States of calls. The first six are the states of calls in a queue, of failed calls and of injected calls. The states
 * from `settling` to `refunded` belong to calls whose payment is not finished, or which ended without being injected.
 */
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
  /** The record says that the call is queued, but its queue does not have it. */
  "missing",
] as const;
export type CallState = (typeof CALL_STATES)[number];

/** States that a search can ask for. `queued` means all calls that are accepted and have not ended. */
export const SEARCHED_STATES = [...CALL_STATES, "queued"] as const;
type SearchedState = (typeof SEARCHED_STATES)[number];

/** A call without its body, as a search finds it. The times are unix ms. Unknown values are undefined. */
export type FoundCall = {
  id: string;
  state: CallState;
  /**
   * Time by which search results are sorted. For a failed or injected call, it is the time of the failure or injection.
   * For a call in its queue, it is the time when the call was last queued or sent to its runner. If only the payment of
   * the call is stored, it is the time of the claim.
   */
  at: number;
  origin: string | undefined;
  /** `<service id>/<job index>` */
  job: string | undefined;
  endpoint: string | undefined;
  deliveryId: string | undefined;
  payer: string | undefined;
  transaction: string | undefined;
  /** Type of the event, in the sender's words. */
  event: string | undefined;
  acceptedAt: number | undefined;
  endedAt: number | undefined;
  /** Number of attempts. For a call in its queue, only those since it was queued or last replayed. */
  attempts: number | undefined;
  /** Code of the failure of the call, or of its last failed attempt. */
  code: ErrorCode | undefined;
  reason: string | undefined;
};

/** Selects calls that match every field that is set. `since` and `until` limit the call's `at`, both inclusive. */
export type CallSearch = {
  /** Free text (shared/call/search-text.ts). */
  text?: string | undefined;
  /** A whole id, or a prefix. */
  id?: string | undefined;
  deliveryId?: string | undefined;
  endpoint?: string | undefined;
  /** Address in lower case; the transaction is in lower case too. */
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
  /** Cursor of the next page; undefined on the last page. */
  next: PageCursor | undefined;
  /**
   * False if more calls may match: the search ran out of time, a queue has more calls than were read, or `isUnlisted` is
   * true.
   */
  isComplete: boolean;
  /** True if some calls in the requested state may be in no list. They are found only by their ids. */
  isUnlisted: boolean;
};

/**
 * The place where a page ends. `at` is the time of its last call, and `ids` are the beginnings of the ids of all shown
 * calls with this time. Several calls can have the same time, so the next page leaves out the calls with these ids.
 */
export type PageCursor = { at: number; ids: readonly string[] };

export type SearchCalls = (
  search: CallSearch,
  page?: { limit?: number; after?: PageCursor | undefined },
) => Promise<FoundPage>;
