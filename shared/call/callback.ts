import { z } from "zod";
import { callIdInPartitionOf } from "./call-id.ts";

/*
 * A callback reports the end of a call to a receiver. It is itself stored as a call, with the origin `callback`, and is sent
 * to the receiver as other calls are to a runner. So it is retried, fails and is replayed like any other call.
 */

/** Path where both gateways publish the public keys that verify callbacks. */
export const CALLBACK_KEYS_PATH = "/.well-known/callback-keys.json";

/** The receiver of a callback, and the URL and token with which that receiver can read the result. */
export const Callback = z.object({
  url: z.string(),
  /** Name of the receiver (shared/call/callback-target.ts), in the form that it has in the name of a queue. */
  receiver: z.string(),
  /** Only set if the call's job keeps results. */
  result_url: z.string().optional(),
  result_token: z.string().optional(),
});
export type Callback = z.infer<typeof Callback>;

/** The reason for a failure: a code, and the title and detail of the runner's problem document. */
const Failure = z.object({ code: z.string(), title: z.string().optional(), detail: z.string().optional() });
export type Failure = z.infer<typeof Failure>;

/** Ways in which a call can end, as a callback names them. A call that failed and was run again may end twice. */
export const ENDINGS = ["call.completed", "call.failed"] as const;
export type Ending = (typeof ENDINGS)[number];

/** Content of a callback. */
export const CallbackEvent = z.object({
  type: z.enum(ENDINGS),
  call_id: z.string(),
  origin: z.string(),
  /** Only set if Postern itself failed the call. */
  failure: Failure.optional(),
  to: Callback,
});
export type CallbackEvent = z.infer<typeof CallbackEvent>;

/**
 * Derives the id of the callback for this ending of a call. The same ending always gives the same id. The callback is in the
 * partition of the call, because the script that ends the call also adds the callback.
 */
export function callbackId(callId: string, ending: Ending): string {
  return callIdInPartitionOf(callId, "callback", callId, ending);
}
