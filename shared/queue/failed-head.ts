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

/** The field beside the body, in BullMQ's hash of a failed call, that holds its head. */
export const HEAD_FIELD = "head";

/**
 * What lists and filters need to know of a failed call, so that nobody reads its body for it. A call of which that is not known
 * has none of it.
 */
export type FailedHead = {
  /** The webhook path that received it. */
  path?: string | undefined;
  accepted_at?: number | undefined;
  content_type?: string | undefined;
  bytes?: number | undefined;
  sha256?: string | undefined;
  traceparent?: string | undefined;
  /** The sender's own id of the delivery. */
  delivery_id?: string | undefined;
  /** The sender's type of the event. */
  event?: string | undefined;
  payer?: string | undefined;
  transaction?: string | undefined;
};

/** A producer writes it as it fails the call. */
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

/** The head of a call as its queue holds it, whatever that is. */
export function headOfStored(stored: unknown): FailedHead {
  const { data } = JobCall.safeParse(stored);
  return data === undefined ? {} : headOf(data);
}

/** Reads what `JSON.stringify(head)` has written. It is not checked, because a command reads a million of them. */
export function decodeHead(text: string): FailedHead {
  return (parseJson(text) as FailedHead | undefined) ?? {};
}
