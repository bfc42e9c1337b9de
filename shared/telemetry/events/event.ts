import { z } from "zod";
import { ORIGINS } from "../../call/origin.ts";
import type { EventOutcome } from "./outcomes.ts";

/*
 * Live events of processes, sent over Redis' pub/sub. They are not reliable: nothing waits for them, events without a
 * listener are lost, and events above a limit are only counted. They contain no secret and no body.
 */

const common = {
  /** Unix ms, by the clock of the process that sends the event. */
  at: z.int(),
  origin: z.enum(ORIGINS),
  /** Path of the webhook endpoint. Absent for other calls, for an attempt that sent nothing, and if no endpoint has the path. */
  endpoint: z.string().optional(),
};

const ofCall = {
  ...common,
  call_id: z.string(),
  /** `<service id>/<job index>`. */
  job: z.string(),
  /** Number of this attempt, from 1, since the call was queued or last replayed. */
  attempt: z.int(),
  /** Number of all attempts before this one: also those before replays, and those that do not count towards the limit. */
  attempts_before: z.int(),
};

/** Error of a failed attempt or call. The reason is the same as in the log. */
const why = { code: z.string(), reason: z.string() };

/** One event. A later release may add fields. */
export const CallEvent = z.discriminatedUnion("outcome", [
  /** A gateway has put a call on disk and answered its sender or payer. */
  z.object({
    ...common,
    outcome: z.literal("accepted"),
    call_id: z.string(),
    /** Absent if the reconciler of a payment gateway has completed the payment, instead of the payer's request. */
    job: z.string().optional(),
    /** Size of the body. */
    bytes: z.int().optional(),
    /** True for a repeat: the delivery or payment was known before, and its call does not run again. */
    replayed: z.boolean(),
    payer: z.string().optional(),
    transaction: z.string().optional(),
    /** Duration of the request. */
    ms: z.number().optional(),
  }),
  /**
   * A gateway has refused requests. Unauthenticated requests are sampled, so one event may count many: the `times` of all
   * events add up to all refusals.
   */
  z.object({
    ...common,
    outcome: z.literal("refused"),
    code: z.string(),
    /** Absent if requests with different reasons are counted together. */
    reason: z.string().optional(),
    times: z.int(),
    call_id: z.string().optional(),
    job: z.string().optional(),
    /** The client's address; absent if requests are counted together. */
    address: z.string().optional(),
    /** The path in the request, if no endpoint has it. */
    path: z.string().optional(),
  }),
  /** The runner has accepted the call. */
  z.object({
    ...ofCall,
    outcome: z.literal("injected"),
    /** Time that the runner took. */
    inject_ms: z.number(),
    /** Time since the call was accepted. */
    end_to_end_ms: z.number(),
  }),
  /** An attempt has failed, or the runner has asked for a later retry. The call is sent again after `wait_ms`. */
  z.object({
    ...ofCall,
    outcome: z.literal("retried"),
    ...why,
    wait_ms: z.number(),
    /** True if the attempt counts towards the limit of attempts. */
    spent: z.boolean(),
  }),
  /** The call stays failed until an operator replays or discards it. */
  z.object({ ...ofCall, outcome: z.literal("failed"), ...why }),
]);
export type CallEvent = z.infer<typeof CallEvent>;

/** Kinds of processes that send events. */
export const SENDING_SERVICES = ["webhooks", "x402", "producer"] as const;

/** Sender of an event: the kind of the process, and its host and process id. */
export const EventSender = z.object({ service: z.enum(SENDING_SERVICES), process: z.string() });
export type EventSender = z.infer<typeof EventSender>;

/** Number of omitted events, by outcome. */
export const LeftOut = z.record(z.string(), z.int());
export type LeftOut = z.infer<typeof LeftOut>;

/** One message of a process, with the events that it has collected, up to a maximum size. */
export const EventBatch = z.object({
  v: z.literal(1),
  from: EventSender,
  /** Id of the followers' lease, in the first message after the process has noticed this lease. */
  hello: z.string().optional(),
  events: z.array(CallEvent),
  /** Numbers of events left out since the last message, because they exceeded the limit per second. */
  left_out: LeftOut.optional(),
});
export type EventBatch = z.infer<typeof EventBatch>;

/** Selects the events that match every key present. */
export type EventFilter = {
  endpoint?: string | undefined;
  job?: string | undefined;
  origin?: CallEvent["origin"] | undefined;
  outcomes?: readonly EventOutcome[] | undefined;
  callId?: string | undefined;
};

export function isWanted(event: CallEvent, filter: EventFilter): boolean {
  const { endpoint, job, origin, outcomes, callId } = filter;
  return (
    (endpoint === undefined || event.endpoint === endpoint) &&
    (job === undefined || event.job === job) &&
    (origin === undefined || event.origin === origin) &&
    (outcomes === undefined || outcomes.includes(event.outcome)) &&
    (callId === undefined || event.call_id?.startsWith(callId) === true)
  );
}
