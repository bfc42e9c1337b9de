import { z } from "zod";
import { callIdBeside } from "./call-id.ts";

/*
 * A callback tells of the end of a call. It is a call itself, of an origin of its own, whose runner is the receiver: so it is retried,
 * fails, and is replayed as any other.
 */

/** Where both gateways tell the public keys that verify callbacks. */
export const CALLBACK_KEYS_PATH = "/.well-known/callback-keys.json";

/** Where the end of a call is told, and how its receiver asks for the result. */
export const Callback = z.object({
  url: z.string(),
  /** Who that is (shared/call/callback-target.ts), as part of a queue's name. */
  receiver: z.string(),
  /** If the call's job keeps results. */
  result_url: z.string().optional(),
  result_token: z.string().optional(),
});
export type Callback = z.infer<typeof Callback>;

/** Why a call failed: the code, and what its runner's problem document says for people. */
const Failure = z.object({ code: z.string(), title: z.string().optional(), detail: z.string().optional() });
export type Failure = z.infer<typeof Failure>;

/** How calls end that have a callback. A call that failed, and was run again, may end twice. */
export const ENDINGS = ["call.completed", "call.failed"] as const;
export type Ending = (typeof ENDINGS)[number];

/** What a callback tells. */
export const CallbackEvent = z.object({
  type: z.enum(ENDINGS),
  call_id: z.string(),
  origin: z.string(),
  /** If it is Postern that has failed the call. */
  failure: Failure.optional(),
  to: Callback,
});
export type CallbackEvent = z.infer<typeof CallbackEvent>;

/** The id of the callback of this call for this ending, however often it is written. One step ends the call and adds its callback. */
export function callbackId(callId: string, ending: Ending): string {
  return callIdBeside(callId, "callback", callId, ending);
}
