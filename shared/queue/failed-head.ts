import { z } from "zod";
import { type CallHead, JobCall, WEBHOOK_PATH } from "../job-call/job-call.ts";
import { isNewer, VERSIONS } from "../redis/version.ts";

/** The field beside the body, in BullMQ's hash of a failed call, that holds its head. */
export const HEAD_FIELD = "head";

const Stored = z.object({
  v: z.int(),
  /** The webhook path that received it. */
  path: z.string().optional(),
  accepted_at: z.int().optional(),
  content_type: z.string().optional(),
  bytes: z.int().optional(),
  sha256: z.string().optional(),
  traceparent: z.string().optional(),
});

/** What lists and filters need to know of a failed call, so that nobody reads its body for it. Empty if the call is none. */
export type FailedHead = Omit<z.infer<typeof Stored>, "v">;

/** A producer writes it as it fails the call. */
export function headOf({ metadata, ...call }: CallHead): FailedHead {
  const { accepted_at, content_type, bytes, sha256, traceparent } = call;
  return { path: metadata[WEBHOOK_PATH], accepted_at, content_type, bytes, sha256, traceparent };
}

/** The head of a call as its queue holds it, whatever that is. */
export function headOfStored(stored: unknown): FailedHead {
  const { data } = JobCall.safeParse(stored);
  return data === undefined ? {} : headOf(data);
}

export function toStored(head: FailedHead): string {
  return JSON.stringify({ v: VERSIONS.failedHead, ...head } satisfies z.infer<typeof Stored>);
}

/** Empty if it cannot be read, as that of a later release. */
export function readHead(text: string): FailedHead {
  const { data } = Stored.safeParse(parsed(text));
  if (data === undefined || isNewer("failedHead", data.v)) return {};
  const { v: _, ...head } = data;
  return head;
}

/** The text itself if it is no JSON. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
