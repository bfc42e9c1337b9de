import {
  type CallHead,
  eventOf,
  JobCall,
  WEBHOOK_DELIVERY_ID,
  WEBHOOK_PATH,
  X402_PAYER,
  X402_TRANSACTION,
} from "../call/job-call.ts";
import { parseJson } from "../platform/text/parse-json.ts";

/** Field in BullMQ's hash of a failed call that holds the call's head. */
export const HEAD_FIELD = "head";

/**
 * The head of a failed call: the data that lists and filters need. It is stored separately, so that they need not read the
 * whole call with its body. Fields whose values are not known are absent.
 */
export type FailedHead = {
  /** The webhook path that received the call. */
  path?: string | undefined;
  accepted_at?: number | undefined;
  content_type?: string | undefined;
  bytes?: number | undefined;
  sha256?: string | undefined;
  traceparent?: string | undefined;
  /** Id of the delivery, chosen by its sender. */
  delivery_id?: string | undefined;
  /** Type of the event, as the sender named it. */
  event?: string | undefined;
  payer?: string | undefined;
  transaction?: string | undefined;
};

/** Builds the head of a call. A producer stores it when it fails the call. */
export function headOf({ metadata, ...call }: CallHead): FailedHead {
  const { accepted_at, content_type, bytes, sha256, traceparent } = call;
  return {
    path: metadata[WEBHOOK_PATH],
    accepted_at,
    content_type,
    bytes,
    sha256,
    traceparent,
    delivery_id: metadata[WEBHOOK_DELIVERY_ID],
    event: eventOf(metadata),
    payer: metadata[X402_PAYER],
    transaction: metadata[X402_TRANSACTION],
  };
}

/** Builds the head of a stored call; empty if the stored data is not a valid call. */
export function headOfStored(stored: unknown): FailedHead {
  const { data } = JobCall.safeParse(stored);
  return data === undefined ? {} : headOf(data);
}

/** Parses a head that `JSON.stringify` wrote. It is not validated, because a command may read a million heads. */
export function decodeHead(text: string): FailedHead {
  return (parseJson(text) as FailedHead | undefined) ?? {};
}
